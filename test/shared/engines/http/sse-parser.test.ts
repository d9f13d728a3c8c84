import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SseParser } from '../../../../shared/engines/http/sse-parser.ts';

function parse(chunks: readonly Uint8Array[]): string[] {
  const events: string[] = [];
  const parser = new SseParser((data) => events.push(data));
  for (const chunk of chunks) parser.push(chunk);
  parser.end();
  return events;
}

/** Cuts `bytes` at the given places. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

describe('SSE parser', () => {
  it('gives the data of each event under any chunking and any line ends', () => {
    const text = fc
      .string({ unit: 'grapheme', maxLength: 12 })
      .map((s) => s.replace(/[\r\n]/g, '_').replace(/^\uFEFF/, ''));
    fc.assert(
      fc.property(
        fc.array(fc.array(text, { minLength: 1, maxLength: 3 }), { maxLength: 6 }),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.constantFrom('data:', 'data: '),
        fc.array(fc.nat(1000), { maxLength: 12 }),
        (events, newline, field, places) => {
          const wire = events
            .map((lines) => {
              const data = lines.map((line) => `${field}${line}${newline}`).join('');
              return `: keep-alive${newline}event: message${newline}${data}id: 7${newline}${newline}`;
            })
            .join('');
          const expected = events.map((lines) =>
            // One leading space belongs to the format.
            lines.map((line) => (field === 'data:' && line.startsWith(' ') ? line.slice(1) : line)).join('\n'),
          );
          expect(parse(cut(Buffer.from(wire), places))).toEqual(expected);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('never splits a character, not even byte by byte', () => {
    const bytes = Buffer.from('\uFEFFdata: {"t":"žluťoučký 🐴"}\r\n\r\ndata: [DONE]\r\n\r\n');
    expect(parse(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(['{"t":"žluťoučký 🐴"}', '[DONE]']);
  });

  it('gives an event whose closing blank line is missing at the end', () => {
    expect(parse([Buffer.from('data: a\n\ndata: b')])).toEqual(['a', 'b']);
  });

  it('skips events without data', () => {
    expect(parse([Buffer.from(': hello\n\nevent: ping\n\nretry: 5\n\ndatum: x\n\n')])).toEqual([]);
  });

  it('refuses an event without bound', () => {
    const parser = new SseParser(() => {});
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    expect(() => {
      for (let times = 0; times < 9; times++) parser.push(chunk);
    }).toThrow('Bad gateway');
  });
});
