// Plays every row of a folder of .jsonl files in the format of test/fixtures/router against hashing, index and
// selection, and says which rows fail. `npm run conformance:router -- DIR` ends with `N passed, N failed`. No
// difference from the record is allowed.

import { playRows } from './play-rows.ts';
import { readRouterFolder } from './router/conformance.ts';

playRows('conformance:router', readRouterFolder);
