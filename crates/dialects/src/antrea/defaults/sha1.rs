//! SHA-1, for the names that Antrea gives to rules. It protects nothing here, and is too small for a dependency with a
//! family of its own.

/// The hash of a text, in hexadecimal digits.
pub fn hex(text: &[u8]) -> String {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = text.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((text.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

fn compress(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for t in 16..80 {
        words[t] = (words[t - 3] ^ words[t - 8] ^ words[t - 14] ^ words[t - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (t, word) in words.into_iter().enumerate() {
        let (mixed, constant) = match t / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant);
        (a, b, c, d, e) = (next.wrapping_add(word), a, b.rotate_left(30), c, d);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}
