//! Messages between the suite and the server: a length in four bytes, and the message.

use std::io::{self, Read, Write};

use prost::Message;

pub(crate) fn read<M: Message + Default>(from: &mut impl Read) -> io::Result<M> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(M::decode(message.as_slice())?)
}

pub(crate) fn write(to: &mut impl Write, message: &impl Message) -> io::Result<()> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&message)?;
    to.flush()
}
