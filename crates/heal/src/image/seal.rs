//! The tables of an image whose pages are in place already.

use super::geometry::{Geometry, PAGE_BYTES, Protection};
use super::table::{self, crc32c};
use crate::Error;

/// Zeros what is behind the payload, writes both tables, and returns their digest. For an image without parity, whose
/// payload lies in one piece.
///
/// # Errors
/// [`Error::Option`] for one with parity, or of another length.
pub fn seal(geometry: &Geometry, image: &mut [u8]) -> Result<u32, Error> {
    if geometry.protection() != Protection::Checked || image.len() != geometry.file_bytes() {
        let why = format!("{} bytes of {} are not sealed", image.len(), geometry.protection().label());
        return Err(Error::Option { option: "image", why });
    }
    let (body, tables) = image.split_at_mut(geometry.body_bytes());
    body[geometry.payload_bytes() as usize..].fill(0);
    let entries: Vec<u32> = body.chunks_exact(PAGE_BYTES).map(crc32c).collect();
    let (first, second) = tables.split_at_mut(geometry.table_bytes());
    table::store(&entries, first);
    table::store(&entries, second);
    Ok(table::digest(&entries))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::image::{Source, fill};

    #[test]
    fn it_is_the_image_that_filling_gives() {
        for bytes in [0usize, 1, 65_536, 200_001] {
            let payload: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8 | 1).collect();
            let geometry = Geometry::new(bytes as u64, Protection::Checked).unwrap();
            let mut wanted = vec![0; geometry.file_bytes()];
            let digest = fill(&geometry, &Source::new(vec![&payload]), &mut wanted, &mut |_| {}).unwrap();
            let mut image = vec![0xEE; geometry.file_bytes()];
            image[..bytes].copy_from_slice(&payload);
            assert_eq!(seal(&geometry, &mut image).unwrap(), digest);
            assert!(image == wanted);
        }
        let geometry = Geometry::new(10, Protection::Shard).unwrap();
        assert!(seal(&geometry, &mut vec![0; geometry.file_bytes()]).is_err());
    }
}
