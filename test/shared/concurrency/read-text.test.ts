import { describe, expect, it } from 'vitest';
import { readText } from '../../../shared/concurrency/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const BOUNDS = { bytesMax: 4, timeoutMs: 1000 };

describe('the text of a body', () => {
  it('is put together from its pieces, wherever they part a character', async () => {
    const bytes = Buffer.from('aé日');
    const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(await readText(pieces, { ...BOUNDS, bytesMax: 6 })).toEqual({ kind: 'text', text: 'aé日' });
    expect(await readText([], BOUNDS)).toEqual({ kind: 'text', text: '' });
  });

  it('is not read beyond its bound', async () => {
    let read = 0;
    async function* endless(): AsyncIterable<Uint8Array> {
      for (;;) {
        read++;
        yield Buffer.from('abc');
      }
    }
    expect(await readText(endless(), BOUNDS)).toEqual({ kind: 'too-large' });
    expect(read).toBe(2);
  });

  it('is refused where it is no UTF-8', async () => {
    expect(await readText([Buffer.from([0x61, 0xff])], BOUNDS)).toEqual({ kind: 'no-utf8' });
  });

  it('comes in time or not at all', async () => {
    const clock = new VirtualClock();
    async function* stalled(): AsyncIterable<Uint8Array> {
      yield Buffer.from('a');
      await new Promise(() => {});
    }
    const late = readText(stalled(), { ...BOUNDS, clock });
    const outcome = expect(late).rejects.toThrow('the body took more than 1000 ms');
    await clock.advance(1000);
    await outcome;
    expect(clock.pendingTimers).toBe(0);
  });

  it('fails as its source does', async () => {
    async function* cut(): AsyncIterable<Uint8Array> {
      yield Buffer.from('a');
      throw new Error('socket hang up');
    }
    await expect(readText(cut(), BOUNDS)).rejects.toThrow('socket hang up');
  });
});
