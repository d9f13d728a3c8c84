import { cellsOf, STAGES } from './matrix-bed.ts';
import { describeWorkerFaults } from './worker-faults.ts';

describeWorkerFaults({}, cellsOf(STAGES));
