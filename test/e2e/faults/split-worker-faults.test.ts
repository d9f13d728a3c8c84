import { cellsOf, SPLIT, SPLIT_STAGES } from './matrix-bed.ts';
import { describeWorkerFaults } from './worker-faults.ts';

describeWorkerFaults({ pools: SPLIT }, cellsOf(SPLIT_STAGES));
