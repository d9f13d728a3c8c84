import { SPLIT, SPLIT_STAGES } from './matrix-bed.ts';
import { describeWorkerFaults } from './worker-faults.ts';

describeWorkerFaults({ pools: SPLIT }, SPLIT_STAGES, 'in prefill');
