//! The part of protobuf's encoding that the wire form uses: varints, doubles, and length-delimited fields.
//!
//! Written here rather than generated because generated readers skip unknown fields, and to skip a condition of a rule is to
//! open what the sender wants closed; `tests/wire_form.rs` holds it to `feed.proto` with an independent implementation.

use super::DecodeError;

/// The encoding of a message under construction. Fields are written in ascending order.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

/// The fields of a message.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    message: &'static str,
    rest: &'a [u8],
    last: u32,
}

/// A field's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

const VARINT: u32 = 0;
const DOUBLE: u32 = 1;
const BYTES: u32 = 2;

// === impl Writer ===

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a number, unless it is 0, which is the default.
    pub(super) fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.present(field, number);
        }
    }

    /// Writes a number of a field with presence.
    pub(super) fn present(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field << 3 | VARINT));
        self.varint(number);
    }

    pub(super) fn double(&mut self, field: u32, number: f64) {
        if number.to_bits() != 0 {
            self.varint(u64::from(field << 3 | DOUBLE));
            self.0.extend(number.to_bits().to_le_bytes());
        }
    }

    /// Writes text, unless it is empty, which is the default.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Writes text of a field with presence.
    pub(super) fn optional(&mut self, field: u32, text: Option<&str>) {
        if let Some(text) = text {
            self.bytes(field, text.as_bytes());
        }
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field << 3 | BYTES));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Writes numbers packed, unless there are none.
    pub(super) fn packed(&mut self, field: u32, numbers: impl IntoIterator<Item = u32>) {
        let mut inner = Writer::default();
        numbers.into_iter().for_each(|number| inner.varint(u64::from(number)));
        if !inner.0.is_empty() {
            self.bytes(field, &inner.0);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'static str, bytes: &'a [u8]) -> Self {
        Fields { message, rest: bytes, last: 0 }
    }

    /// Returns the next field. Fields come in ascending order; `repeated` ones may repeat.
    pub(super) fn next(&mut self, repeated: &[u32]) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = u32::try_from(tag >> 3).map_err(|_| DecodeError::Malformed(self.message))?;
        if field < self.last || field == self.last && !repeated.contains(&field) {
            return Err(DecodeError::Malformed(self.message));
        }
        self.last = field;
        let value = match u32::try_from(tag & 7) {
            Ok(VARINT) => Value::Varint(self.varint()?),
            Ok(DOUBLE) => {
                let (bytes, rest) =
                    self.rest.split_first_chunk::<8>().ok_or(DecodeError::Malformed(self.message))?;
                self.rest = rest;
                Value::Double(f64::from_bits(u64::from_le_bytes(*bytes)))
            }
            Ok(BYTES) => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let split = self.rest.split_at_checked(length);
                let (bytes, rest) = split.ok_or(DecodeError::Malformed(self.message))?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            _ => return Err(DecodeError::Malformed(self.message)),
        };
        Ok(Some((field, value)))
    }

    /// Returns the error for a field that this version does not know.
    pub(super) fn unknown(&self, field: u32) -> DecodeError {
        DecodeError::UnknownField { message: self.message, field }
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        varint(&mut self.rest).ok_or(DecodeError::Malformed(self.message))
    }
}

// === impl Value ===

impl<'a> Value<'a> {
    pub(super) fn number(self, what: &'static str) -> Result<u64, DecodeError> {
        match self {
            Value::Varint(number) => Ok(number),
            _ => Err(DecodeError::Malformed(what)),
        }
    }

    /// Returns the number, if it is in the range of the type.
    pub(super) fn narrow<T: TryFrom<u64>>(self, what: &'static str) -> Result<T, DecodeError> {
        T::try_from(self.number(what)?).map_err(|_| DecodeError::OutOfRange(what))
    }

    pub(super) fn truth(self, what: &'static str) -> Result<bool, DecodeError> {
        match self.number(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::OutOfRange(what)),
        }
    }

    pub(super) fn double(self, what: &'static str) -> Result<f64, DecodeError> {
        match self {
            Value::Double(number) => Ok(number),
            _ => Err(DecodeError::Malformed(what)),
        }
    }

    pub(super) fn bytes(self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError::Malformed(what)),
        }
    }

    pub(super) fn text(self, what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| DecodeError::Malformed(what))
    }

    /// Returns packed numbers.
    pub(super) fn packed(self, what: &'static str) -> Result<Vec<u32>, DecodeError> {
        let mut rest = self.bytes(what)?;
        let mut numbers = Vec::new();
        while !rest.is_empty() {
            let number = varint(&mut rest).ok_or(DecodeError::Malformed(what))?;
            numbers.push(u32::try_from(number).map_err(|_| DecodeError::OutOfRange(what))?);
        }
        Ok(numbers)
    }
}

/// Reads a varint of at most ten bytes, none of them needless.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 || shift > 0 && *byte == 0 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
