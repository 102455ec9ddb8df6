"""What a file that isn't a GGUF seems to be, so that a message can say what to do instead."""

_OLD_GGML = (b"lmgg", b"fmgg", b"tjgg", b"algg")


def guess(prefix: bytes, size: int) -> str:
    """A clause that goes after "X is not a GGUF file: ", remedy included.

    Args:
        prefix: the first bytes of the file; 1 KiB is plenty.
        size: bytes of the whole file.
    """
    text = prefix.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    header = int.from_bytes(prefix[:8], "little")
    if size == 0:
        return "it is empty; download it again"
    if len(prefix) < 4 and b"GGUF".startswith(prefix):
        return f"it ends after {size} bytes; download it again"
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "it is a web page that was saved in place of the model; take the download link of the file itself"
    if text.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer to the model; fetch the file itself with `git lfs pull`"
    if prefix.startswith(b"PK"):
        return "it is a zip archive, perhaps a PyTorch checkpoint or a Python wheel; convert or unpack it to GGUF"
    if prefix.startswith(_OLD_GGML):
        return "it is a GGML file from before GGUF; get a newer conversion of the model"
    if prefix[8:9] == b"{" and 2 <= header <= size - 8:
        return "it looks like safetensors; give the folder that holds it and its config.json"
    if prefix.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh", b"7z\xbc\xaf")):
        return "it is compressed; unpack it first"
    if text.startswith((b"{", b"[")):
        return "it is JSON, perhaps a configuration or a server's error reply; give the .gguf file"
    if prefix.count(0) == len(prefix):
        return "it begins with zeros, as an unfinished download does; download it again"
    return "its first bytes aren't those of any model format that is known here; give a .gguf file"
