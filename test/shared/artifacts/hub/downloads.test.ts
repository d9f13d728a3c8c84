import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type HubBed, openHubBed } from '../../../support/hub/hub-bed.ts';
import { COMMIT, gitSum, type HubFaultPlayed, sha256 } from '../../../support/hub/hub-server.ts';

const NAME = 'org/name';
const TOKENIZER = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * 7919) & 255));

let bed: HubBed;
beforeEach(async () => {
  bed = await openHubBed();
  put(TOKENIZER);
});
afterEach(() => bed.close());

function put(content: Buffer, large: readonly string[] = ['tokenizer.json']): void {
  bed.hub.models.set(NAME, { files: { 'tokenizer.json': content }, large });
}

const model = (): string => join(bed.home, 'hub', 'models--org--name');
const blobs = (): readonly string[] => readdirSync(join(model(), 'blobs'));
const fetched = async (): Promise<Buffer> => readFileSync(join(await bed.fetch(NAME), 'tokenizer.json'));
const expectWhole = async (): Promise<void> => expect((await fetched()).equals(TOKENIZER)).toBe(true);
const ranges = (): readonly (string | undefined)[] =>
  bed.hub.asked.filter(({ path }) => path.startsWith('cdn:')).map(({ range }) => range);

describe('a download', () => {
  it('that ends too early is resumed where it was', async () => {
    bed.hub.faults.push({ kind: 'short', bytes: 70_000 }, { kind: 'short', bytes: 30_000 });
    await expectWhole();
    expect(ranges()).toEqual([undefined, 'bytes=70000-', 'bytes=100000-']);
  });

  it('that is cut is tried again', async () => {
    bed.hub.faults.push({ kind: 'cut', bytes: 70_000 }, { kind: 'cut', bytes: 0 }, { kind: 'status', status: 502 });
    await expectWhole();
    expect(ranges()).toHaveLength(4);
  });

  it('that ended with its process is resumed by the next one', async () => {
    const ending = new AbortController();
    bed.hub.faults.push({ kind: 'silent', bytes: 70_000 });
    const isHere = (bytes: number): void => {
      if (bytes === 70_000) ending.abort(new Error('stopped'));
    };
    const stopped = bed.fetch(NAME, {}, { signal: ending.signal, onProgress: ({ bytes }) => isHere(bytes) });
    await expect(stopped).rejects.toThrow('stopped');
    expect(blobs()).toEqual([`${sha256(TOKENIZER)}.stator.incomplete`]);
    await expectWhole();
    expect(ranges()).toEqual([undefined, 'bytes=70000-']);
    expect(blobs()).toEqual([sha256(TOKENIZER)]);
  });

  it('that falls silent is given up and resumed', async () => {
    bed.hub.faults.push({ kind: 'silent', bytes: 70_000 });
    const onProgress = ({ bytes }: { readonly bytes: number }): void => {
      // The first look finds that bytes came, the second that none did.
      if (bytes !== 70_000) return;
      setImmediate(() => {
        bed.clock.fireWatches();
        bed.clock.fireWatches();
      });
    };
    const folder = await bed.fetch(NAME, {}, { onProgress });
    expect(readFileSync(join(folder, 'tokenizer.json')).equals(TOKENIZER)).toBe(true);
    expect(ranges()).toEqual([undefined, 'bytes=70000-']);
  });

  it('begins again if the hub sends the whole file, or refuses to send the rest', async () => {
    bed.hub.faults.push({ kind: 'short', bytes: 70_000 }, { kind: 'whole' });
    await expectWhole();
    rmSync(model(), { recursive: true });
    bed.hub.faults.push({ kind: 'short', bytes: 70_000 }, { kind: 'status', status: 416 });
    await expectWhole();
    expect(ranges().slice(2)).toEqual([undefined, 'bytes=70000-', undefined]);
  });

  it('begins again if what an earlier one left is not the beginning of the file', async () => {
    await expect(bed.fetch(`${NAME}@${COMMIT}`)).resolves.toContain('snapshots');
    for (const left of [Buffer.from('something else'), Buffer.concat([TOKENIZER, TOKENIZER])]) {
      rmSync(join(model(), 'blobs'), { recursive: true });
      rmSync(join(model(), 'snapshots'), { recursive: true });
      mkdirSync(join(model(), 'blobs'));
      writeFileSync(join(model(), 'blobs', `${sha256(TOKENIZER)}.stator.incomplete`), left);
      await expectWhole();
    }
  });

  it.each<[string, readonly string[], HubFaultPlayed]>([
    ['a byte of a large file', ['tokenizer.json'], { kind: 'wrong', at: 1234 }],
    ['a byte of a small file', [], { kind: 'wrong', at: 1234 }],
    ['the end of the file', [], { kind: 'long' }],
  ])('is refused if %s is wrong, and leaves nothing of it', async (_, large, fault) => {
    put(TOKENIZER, large);
    bed.hub.faults.push(fault);
    await expect(fetched()).rejects.toThrow(/^tokenizer\.json: (the bytes that came are others|more bytes came) than/);
    expect(blobs().filter((name) => !name.endsWith('.incomplete'))).toEqual([]);
    await expectWhole();
    expect(blobs()).toEqual([large.length > 0 ? sha256(TOKENIZER) : gitSum(TOKENIZER)]);
  });

  it.each([
    ['http://127.0.0.1:1/elsewhere', /cannot be reached/],
    ['file:///etc/passwd', /redirects to an address that is not safe/],
    ['//[', /redirects to an address that is not safe/],
  ])('does not follow a redirect to %s', async (to, message) => {
    bed.hub.faults.push(...Array.from({ length: 4 }, () => ({ kind: 'redirect', to }) as const));
    await expect(fetched()).rejects.toThrow(message);
  });

  it('does not follow redirects without an end', async () => {
    put(TOKENIZER, []);
    const to = `/${NAME}/resolve/${COMMIT}/tokenizer.json`;
    bed.hub.faults.push(...Array.from({ length: 9 }, () => ({ kind: 'redirect', to }) as const));
    await expect(fetched()).rejects.toThrow('redirects org/name more than 5 times');
  });

  it('ends with the right bytes or with an error, whatever goes wrong on the way', async () => {
    const faults = fc.array(
      fc.oneof(
        fc.record({ kind: fc.constantFrom('cut' as const, 'short' as const), bytes: fc.nat(3000) }),
        fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(403, 416, 429, 500, 503) }),
        fc.record({ kind: fc.constant('wrong' as const), at: fc.nat(3000) }),
        fc.record({ kind: fc.constant('whole' as const) }),
        fc.record({ kind: fc.constant('long' as const) }),
        fc.constant(undefined),
      ),
      { maxLength: 12 },
    );
    const content = fc.uint8Array({ maxLength: 4000 }).map((bytes) => Buffer.from(bytes));
    await fc.assert(
      fc.asyncProperty(content, fc.boolean(), faults, async (bytes, isLarge, played) => {
        rmSync(join(bed.home, 'hub'), { recursive: true, force: true });
        put(bytes, isLarge ? ['tokenizer.json'] : []);
        bed.hub.faults.splice(0, bed.hub.faults.length, ...played);
        const first = await fetched().catch((thrown: Error) => thrown);
        if (first instanceof Error) expect(first.message).toMatch(/tokenizer\.json|answered|forbids|cannot be reached/);
        else expect(first.equals(bytes)).toBe(true);
        bed.hub.faults.length = 0;
        expect((await fetched()).equals(bytes)).toBe(true);
        expect(blobs()).toEqual([isLarge ? sha256(bytes) : gitSum(bytes)]);
      }),
      { numRuns: 25 },
    );
  });
});
