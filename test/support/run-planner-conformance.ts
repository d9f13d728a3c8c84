// Plays every row of a folder of .jsonl files in the format of test/fixtures/planner against the planner, and says
// which rows fail. `npm run conformance:planner -- DIR` ends with `N passed, N failed`. Values that a library fitted
// are compared to 10 %, except in a series with only one jump or gap. Forecasts of prophet, which is not built, are
// left out.
import { readPlannerFolder } from './planner/conformance.ts';
import { playRows } from './play-rows.ts';

playRows('conformance:planner', readPlannerFolder);
