import { STAGES } from './matrix-bed.ts';
import { describeWorkerFaults } from './worker-faults.ts';

describeWorkerFaults({}, STAGES, 'in mid-stream');
