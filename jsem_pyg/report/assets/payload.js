// What payload.py packed: a header in JSON, and the arrays that it tells the places of.

async function unpack(base64) {
  const packed = new Blob([bytesOf(base64)]).stream();
  const stream = packed.pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  const content = JSON.parse(header);
  for (const [name, place] of Object.entries(content.arrays)) {
    content.arrays[name] = arrayAt(buffer, 4 + length, place);
  }
  return content;
}

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function arrayAt(buffer, first, { type, shape, start }) {
  const kinds = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array };
  const kind = kinds[type];
  const count = shape.reduce((a, b) => a * b, 1);
  const begin = first + start;
  return new kind(buffer.slice(begin, begin + count * kind.BYTES_PER_ELEMENT));
}
