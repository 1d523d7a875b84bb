"""PaddleOCR-VL, its text part: the usual names."""

from edgeinfer.models.huggingface.qwen2vl import write as write

ARCH = "paddleocr"
CLASSES = ("PaddleOCRVLForConditionalGeneration",)
