//! Gzip, with a limit on what may come out.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// Most bytes that a compressed file may hold.
pub(crate) const BYTES_MAX: u64 = 2 << 30;

/// The content of a gzip file (RFC 1952), all members. The error is a message.
pub(crate) fn gunzip(data: &[u8], bytes_max: u64) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    MultiGzDecoder::new(data)
        .take(bytes_max + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("this is not a sound gzip file: {error}"))?;
    if content.len() as u64 > bytes_max {
        return Err(format!(
            "the compressed file holds more than {bytes_max} bytes"
        ));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_are_joined_as_gzip_itself_joins_them() {
        let two = [gzip(b"a,b\n"), gzip(b"1,2\n")].concat();
        assert_eq!(gunzip(&two, 100).unwrap(), b"a,b\n1,2\n");
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![0; 1 << 20]);
        assert!(bomb.len() < 50_000, "{}", bomb.len());
        assert!(gunzip(&bomb, 1_000).unwrap_err().contains("1000 bytes"));
        assert_eq!(gunzip(&bomb, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn broken_and_cut_files_are_refused() {
        let whole = gzip(&b"id,grade_a\n1,1\n".repeat(50));
        for cut in 0..whole.len() {
            assert!(gunzip(&whole[..cut], 1_000).is_err(), "cut at {cut}");
        }
        assert!(gunzip(b"id,grade_a\n1,1\n", 1_000).is_err());
        let mut flipped = whole;
        let at = flipped.len() - 6;
        flipped[at] ^= 1;
        assert!(gunzip(&flipped, 1_000).is_err());
    }
}
