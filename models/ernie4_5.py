"""ERNIE 4.5, dense: Llama's layers.  Source: https://ernie.baidu.com/blog/publication/ERNIE_Technical_Report.pdf."""

from edgeinfer.models.llama import forward as forward
