"""The server of `keras-mt serve`: models behind the interfaces of DeepL and of LibreTranslate."""
