// Puts the pieces of a body together as they arrive.
//
// Fact: a piece is a Buffer of its own, some 200 bytes of memory however short it is, and a client chooses how long it
// is: 60 bodies of 256 KiB in chunks of one byte took 6 GB. Choice: from the second piece on they are in one buffer.
// Effect: 110 MB (test/end-to-end/short-pieces.long.ts). A body of one piece is not copied.

/**
 * `piece` after the first `bytes` of `body`: in `body` itself if it has room, else in a copy of `capacity` bytes. A
 * first piece has no room, so that the buffer that it is a slice of is not written to.
 */
export function withPiece(body: Buffer, bytes: number, piece: Buffer, capacity: number): Buffer {
  const end = bytes + piece.length;
  let into = body;
  if (end > body.length) {
    into = Buffer.allocUnsafe(Math.max(capacity, end));
    body.copy(into, 0, 0, bytes);
  }
  piece.copy(into, bytes);
  return into;
}
