import { afterEach, describe, it } from 'vitest';
import { cellsAt, STAGES, useMatrixBed } from './matrix-bed.ts';
import { describeOuterFaults, expectLeft } from './outer-faults.ts';

const CELLS = cellsAt('in mid-stream', STAGES);

describe('a client that leaves', () => {
  const bed = useMatrixBed();
  afterEach(() => bed.mend());

  it.each(CELLS)('$stage ($form): its place is free at once, and it is counted', async (cell) => {
    await expectLeft(bed, cell);
  });
});

describeOuterFaults(['agg'], CELLS);
