import { budgetRows } from './budgets.ts';
import { decisionRows } from './decisions.ts';
import { passModelRows } from './pass-model.ts';
import { predictorRows } from './predictors.ts';
import type { PlannerRow } from './records.ts';

/** Reads every row of a folder of records. */
export function readPlannerFolder(folder: string): readonly PlannerRow[] {
  return [budgetRows, predictorRows, passModelRows, decisionRows].flatMap((read) => read(folder));
}
