//! What a tier says that has no slot to write to.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::image::Protection;

fn manifest(number: u64) -> Manifest {
    Manifest {
        job: "job".into(),
        generation: GenerationId { number, nonce: 7 },
        rank: 0,
        ranks: 1,
        taken_realtime_ns: number,
        payload_bytes: 0,
        protection: Protection::Checked,
        table_crc32c: 0,
        regions: Vec::new(),
        epoch: 0,
    }
}

#[test]
fn slots_that_are_all_read_are_named_with_what_holds_them_and_no_bytes_are_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut memory = Memory::open(home.path(), "job", 0, 2).unwrap();
    let save = |memory: &mut Memory, number| memory.save(manifest(number), &Source::new(Vec::new()), &mut |_| {});
    save(&mut memory, 4).unwrap();
    let newest = save(&mut memory, 5).unwrap();
    assert_eq!(memory.held(), None);
    let older = memory.image(memory.slot_of(manifest(4).generation).unwrap()).unwrap();
    let wanted = ["slot 0 (generation 4) is still being copied elsewhere", "slot 1 (generation 5) holds the newest"];
    let expect = |error: Error| {
        let text = error.to_string();
        assert!(matches!(error, Error::NoSlot { .. }), "{text}");
        assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{text}");
        assert!(text.contains("set memory.slots to 3") && !text.contains("are free"), "{text}");
    };
    expect(save(&mut memory, 6).unwrap_err());
    expect(memory.begin_receiving(&manifest(6)).unwrap_err());
    let both = memory.image(newest).unwrap();
    assert_eq!(memory.held().unwrap().matches("is still being copied elsewhere").count(), 2);
    drop((older, both));
    save(&mut memory, 6).unwrap();
}
