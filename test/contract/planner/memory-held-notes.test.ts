import { MemoryHeldNotes } from '../../support/memory-held-notes.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { describeHeldNotes } from './held-notes.contract.ts';

describeHeldNotes('memory', async () => {
  const clock = new VirtualClock();
  const notes = new MemoryHeldNotes(clock);
  return { writer: notes, reader: notes, passed: (ms) => clock.advance(ms) };
});
