import { describe, expect, it } from 'vitest';
import { StreamBounds } from '../../../../shared/planes/nats/guarded-transport.ts';

const MIB = 1 << 20;

/** Returns the report about a text of a server that comes in pieces. */
function toldOf(text: string, width = text.length): string | undefined {
  const bounds = new StreamBounds();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += width) {
    const broken = bounds.check(bytes.subarray(at, at + width));
    if (broken !== undefined) return broken;
  }
  return undefined;
}

describe('bounds of what a NATS server sends', () => {
  const usual = `INFO {"a":1}\r\nPING\r\nMSG a 1 5\r\nMSG 9\r\nHMSG a 2 r 12 17\r\nNATS/1.0\r\n\r\nhello\r\nmsg a 1 0\r\n\r\n-ERR 'x'\r\n`;
  it.each([1, 2, 3, 7, 1000])('let the usual pass, in pieces of %d bytes', (width) => {
    expect(toldOf(usual.repeat(20), width)).toBeUndefined();
  });

  it.each([1, 5, 1000])('read no lengths out of payloads, in pieces of %d bytes', (width) => {
    const payload = 'MSG a 1 999999999\r\n';
    expect(toldOf(`MSG a 1 ${payload.length}\r\n${payload}\r\nPONG\r\n`.repeat(3), width)).toBeUndefined();
  });

  it.each([
    ['a message of 99999999 bytes', 'MSG a 1 99999999\r\n'],
    ['a message of', `PONG\r\nHMSG a 1 r 12 ${'9'.repeat(400)} \r\n`],
    ['a line without an end', `INFO ${'{'.repeat(MIB)}`],
    ['a line without an end', `MSG a 1 1\r\n${'x'.repeat(MIB)}`],
    ['a line that NATS does not have', 'PONG\r\nGET / HTTP/1.1\r\n'],
    ['a line that NATS does not have', 'MSG a x 1\r\n'],
    ['a malformed INFO', 'INFO {"a":\r\n'],
    ['a malformed INFO', 'INFO null\r\n'],
    ['pings and reads no answer', 'PING\r\n'.repeat(1001)],
  ])('tell of %s', (broken, text) => {
    expect(toldOf(text, 4096)).toContain(broken);
  });
});
