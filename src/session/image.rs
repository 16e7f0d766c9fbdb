//! Pictures in a prompt: what is taken, and what they are by their own bytes.
use crate::files::image_type;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Largest picture, decoded bytes.
const DECODED_AT_MOST: usize = 20 << 20;

/// What the bytes behind standard base64 show: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
///
/// # Errors
/// Too large (seen before decoding), not strict base64, none of the four. The text is for the client.
pub(super) fn mime_type(base64: &str) -> Result<&'static str, &'static str> {
    // Padding counts as bytes here; the exact length is checked below.
    if base64.len() / 4 * 3 > DECODED_AT_MOST + 2 {
        return Err("is larger than 20 MiB");
    }
    let bytes = BASE64_STANDARD.decode(base64).map_err(|_| "is not standard base64")?;
    if bytes.len() > DECODED_AT_MOST {
        return Err("is larger than 20 MiB");
    }
    image_type(&bytes).ok_or("is no PNG, JPEG, GIF or WEBP picture")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(length: usize) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(length, 0);
        bytes
    }

    #[test]
    fn the_bytes_decide() {
        for (bytes, mime) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<svg>", None),
            (b"\x89PNG", None),
            (b"", None),
        ] {
            assert_eq!(mime_type(&BASE64_STANDARD.encode(bytes)).ok(), mime, "{bytes:?}");
        }
    }

    #[test]
    fn base64_is_strict() {
        let good = BASE64_STANDARD.encode(png(11));
        assert!(good.ends_with('='));
        assert!(mime_type(&good).is_ok());
        let unpadded = good.trim_end_matches('=').to_owned();
        for bad in [
            unpadded,
            format!("{good}\n"),
            format!(" {good}"),
            good.replace('/', "_") + "-",
            format!("data:image/png;base64,{good}"),
        ] {
            assert_eq!(mime_type(&bad), Err("is not standard base64"), "{bad}");
        }
    }

    #[test]
    fn the_limit_is_exact_and_seen_before_decoding() {
        assert_eq!(mime_type(&BASE64_STANDARD.encode(png(DECODED_AT_MOST))), Ok("image/png"));
        let too_large = BASE64_STANDARD.encode(png(DECODED_AT_MOST + 1));
        assert_eq!(mime_type(&too_large), Err("is larger than 20 MiB"));
        assert_eq!(mime_type(&"!".repeat(DECODED_AT_MOST * 2)), Err("is larger than 20 MiB"));
    }
}
