//! What a file holds, by its first bytes.

/// The type of a picture that providers take, by its first 12 bytes.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// In words, what a file is that is no text; `None` if its first bytes tell nothing.
pub fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 11] = [
        (b"%PDF-", "PDF document"),
        (b"PK\x03\x04", "ZIP archive or office document"),
        (b"\x1f\x8b", "gzip archive"),
        (b"BZh91AY&SY", "bzip2 archive"),
        (b"\xfd7zXZ\0", "xz archive"),
        (b"\x28\xb5\x2f\xfd", "zstd archive"),
        (b"\x7fELF", "ELF program"),
        (b"\xcf\xfa\xed\xfe", "Mach-O program"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    let known = KINDS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, kind)| *kind);
    image_type(bytes).or(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_kind() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0WAVE", None),
            (b"%PDF-1.7", Some("PDF document")),
            (b"fn main() {}", None),
            (b"", None),
        ] {
            assert_eq!(kind_of(bytes), kind, "{bytes:?}");
        }
    }
}
