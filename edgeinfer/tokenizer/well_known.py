"""Texts of tokens that mean the same wherever they occur, because files often fail to mark them.

Source: the models' chat formats; the selection equals llama.cpp's, as the conformance data shows it."""

# A turn or a text ends.
END_TEXTS = tuple(
    text.encode()
    for line in (
        "<|eot_id|> <|eom_id|> <|end_of_text|> <|im_end|> <|end|> <|return|> <|call|> <|calls|> <|flush|>",
        "<|endoftext|> <end_of_turn> <end_of_utterance> <eos> </s> <EOT> _<EOT> [EOT] [EOS] <｜end▁of▁sentence｜>",
        "<turn|> <|tool_response>",
    )
    for text in line.split()
)

# Fill in the middle: prefix, suffix, middle, padding, repository, file; and whether generation ends there.
FILL_TEXTS = tuple(
    (tuple(text.encode() for text in texts.split()), ends)
    for texts, ends in (
        ("<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|>", False),
        ("<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|>", False),
        ("<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|>", False),
        ("<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]", True),
        ("<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>", True),
        ("<|file_sep|>", True),
    )
)
