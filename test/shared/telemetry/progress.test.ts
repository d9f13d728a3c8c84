import { describe, expect, it } from 'vitest';
import { Progress } from '../../../shared/telemetry/log/progress.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function shownOn(terminal: { readonly isTTY?: boolean; readonly columns?: number }) {
  const clock = new VirtualClock();
  const written: string[] = [];
  const progress = new Progress({ ...terminal, write: (text) => written.push(text) }, clock);
  return { clock, written, progress };
}

describe('progress', () => {
  it('is one line on a terminal, which is taken back', () => {
    const { written, progress } = shownOn({ isTTY: true, columns: 12 });
    progress.tell('run 1 of 2');
    progress.tell('run 2 of 2, which is longer');
    progress.end();
    expect(written).toEqual(['\r\u001b[2Krun 1 of 2', '\r\u001b[2Krun 2 of 2,', '\r\u001b[2K']);
  });

  it('is a line now and then elsewhere, and nothing where work is short', async () => {
    const { clock, written, progress } = shownOn({});
    progress.tell('run 1 of 3');
    await clock.advance(10_000);
    progress.tell('run 2 of 3');
    progress.tell('run 3 of 3');
    progress.end();
    expect(written).toEqual(['stator: run 2 of 3\n']);
  });
});
