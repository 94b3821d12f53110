//! Other people's libraries: 16 data shards, 3 parity shards.

use std::ffi::{CStr, c_int, c_uchar, c_void};

/// A library that encodes 16 + 3.
pub trait Peer {
    fn name(&self) -> &'static str;
    /// Why it cannot run here.
    fn is_missing(&self) -> Option<String> {
        None
    }
    /// Whether its parity is P, Q, R.
    fn gives_the_same(&self) -> bool {
        false
    }
    fn encode(&mut self, data: &[Vec<u8>], parity: &mut [Vec<u8>]);
}

/// All of them.
pub fn all(shard_bytes: usize) -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(IsaL::open(shard_bytes)),
        Box::new(Simd(reed_solomon_simd::ReedSolomonEncoder::new(16, 3, shard_bytes).expect("the shape is allowed"))),
    ]
}

/// reed-solomon-simd 3.1.
struct Simd(reed_solomon_simd::ReedSolomonEncoder);

impl Peer for Simd {
    fn name(&self) -> &'static str {
        "reed-solomon-simd 3.1"
    }

    fn encode(&mut self, data: &[Vec<u8>], parity: &mut [Vec<u8>]) {
        for shard in data {
            self.0.add_original_shard(shard).expect("the shape is right");
        }
        let encoded = self.0.encode().expect("all shards are there");
        for (to, from) in parity.iter_mut().zip(encoded.recovery_iter()) {
            // It keeps the parity in a buffer of its own, which its user reads: taking one byte is not copying.
            to[0] = from[0];
        }
    }
}

type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *const *const u8, *const *mut u8);

/// Intel's ISA-L, loaded at run time.
pub struct IsaL {
    encode: Result<EncodeData, String>,
    tables: Vec<u8>,
    shard_bytes: usize,
}

impl IsaL {
    pub fn open(shard_bytes: usize) -> IsaL {
        let mut tables = vec![0; 32 * 16 * 3];
        let encode = Self::load(&mut tables);
        IsaL { encode, tables, shard_bytes }
    }

    fn load(tables: &mut [u8]) -> Result<EncodeData, String> {
        let mut matrix = [0u8; 19 * 16];
        // SAFETY: the names and signatures are those of isa-l/erasure_code.h 2.30; the buffers have the sizes that it
        // asks for: (k + m) k bytes of matrix, 32 k m bytes of tables.
        unsafe {
            let library = libc::dlopen(c"libisal.so.2".as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return Err("libisal.so.2 is not installed".to_owned());
            }
            let symbol = |name: &CStr| match libc::dlsym(library, name.as_ptr()) {
                address if address.is_null() => Err(format!("libisal.so.2 lacks {name:?}")),
                address => Ok(address),
            };
            type Generate = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
            type Tables = unsafe extern "C" fn(c_int, c_int, *const c_uchar, *mut c_uchar);
            let generate: Generate = std::mem::transmute::<*mut c_void, Generate>(symbol(c"gf_gen_rs_matrix")?);
            let fill: Tables = std::mem::transmute::<*mut c_void, Tables>(symbol(c"ec_init_tables")?);
            let encode: EncodeData = std::mem::transmute::<*mut c_void, EncodeData>(symbol(c"ec_encode_data")?);
            generate(matrix.as_mut_ptr(), 19, 16);
            fill(16, 3, matrix[256..].as_ptr(), tables.as_mut_ptr());
            Ok(encode)
        }
    }
}

impl Peer for IsaL {
    fn name(&self) -> &'static str {
        "ISA-L"
    }

    fn is_missing(&self) -> Option<String> {
        self.encode.as_ref().err().cloned()
    }

    fn gives_the_same(&self) -> bool {
        true
    }

    fn encode(&mut self, data: &[Vec<u8>], parity: &mut [Vec<u8>]) {
        let data: Vec<*const u8> = data.iter().map(|shard| shard.as_ptr()).collect();
        let parity: Vec<*mut u8> = parity.iter_mut().map(|shard| shard.as_mut_ptr()).collect();
        let length = c_int::try_from(self.shard_bytes).expect("a shard is less than 2 GiB");
        let encode = self.encode.as_ref().expect("whoever encodes has asked whether it is there");
        // SAFETY: 16 and 3 pointers to as many bytes as a shard has; the tables were filled for them.
        unsafe { encode(length, 16, 3, self.tables.as_mut_ptr(), data.as_ptr(), parity.as_ptr()) }
    }
}
