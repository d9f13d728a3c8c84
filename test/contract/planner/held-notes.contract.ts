import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HeldNote, HeldNotes } from '../../../shared/planner/held/types.ts';
import { groupOf } from '../../../shared/protocol/index.ts';

const NEVER = new AbortController().signal;

let models = 0;
const newNote = (count = 1): HeldNote => ({
  namespace: 'dynamo-a1',
  model: `Qwen/Qwen3-${models++}~${process.pid}`,
  count,
  oldestAtMs: 1_800_000_000_000,
});

interface OpenNotes {
  readonly writer: HeldNotes;
  readonly reader: HeldNotes;
  /** Moves the clock of both on. */
  passed(ms: number): Promise<void>;
}

/** Tests what every store of held requests promises. @param open opens two handles on one store */
export function describeHeldNotes(name: string, open: () => Promise<OpenNotes>): void {
  describe(`the ${name} store of held requests`, () => {
    let opened: OpenNotes;
    beforeAll(async () => {
      opened = await open();
    }, 60_000);
    afterAll(async () => {
      await opened?.writer.close();
      await opened?.reader.close();
    });

    const liveOf = async (note: HeldNote): Promise<readonly HeldNote[]> => {
      const live = await opened.reader.live(groupOf(note), NEVER);
      return live.toSorted((a, b) => a.count - b.count);
    };

    it('has one note of each holder, the last that it wrote', async () => {
      const note = newNote();
      await opened.writer.put('one', note, NEVER);
      await opened.writer.put('other', { ...note, count: 7, oldestAtMs: note.oldestAtMs + 1 }, NEVER);
      await opened.writer.put('one', { ...note, count: 3 }, NEVER);
      expect(await liveOf(note)).toEqual([
        { ...note, count: 3 },
        { ...note, count: 7, oldestAtMs: note.oldestAtMs + 1 },
      ]);
    });

    it('keeps models apart, whatever their names', async () => {
      const [one, other] = [newNote(1), { ...newNote(2), model: `a model\u00e9#x ${'y'.repeat(300)}${models}` }];
      for (const note of [one, other]) await opened.writer.put('holder', note, NEVER);
      expect(await liveOf(one)).toEqual([one]);
      expect(await liveOf(other)).toEqual([other]);
      expect(await liveOf({ ...one, namespace: 'dynamo' })).toEqual([]);
    });

    it('removes the note of a holder, and no other; a second removal changes nothing', async () => {
      const note = newNote();
      for (const holder of ['one', 'other']) await opened.writer.put(holder, note, NEVER);
      for (let times = 0; times < 2; times++) await opened.writer.remove('one', note, NEVER);
      expect(await liveOf(note)).toEqual([note]);
    });

    it('leaves out notes of 12 s, until their holder writes them again', async () => {
      const note = newNote();
      await opened.writer.put('dead', note, NEVER);
      await opened.passed(9000);
      expect(await liveOf(note)).toEqual([note]);
      await opened.passed(3000);
      expect(await liveOf(note)).toEqual([]);
      await opened.writer.put('dead', note, NEVER);
      expect(await liveOf(note)).toEqual([note]);
    });

    it('rejects with the reason of an aborted signal', async () => {
      const reason = new Error('gone');
      const calls = [
        opened.writer.put('one', newNote(), AbortSignal.abort(reason)),
        opened.writer.remove('one', newNote(), AbortSignal.abort(reason)),
        opened.reader.live('g', AbortSignal.abort(reason)),
      ];
      for (const call of calls) await expect(call).rejects.toBe(reason);
    });
  });
}
