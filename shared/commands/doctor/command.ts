import type { Environment } from '../../config/index.ts';
import { readProgram } from './dynamo-program.ts';
import { renderDiagnosis, renderDiagnosisJson } from './findings.ts';
import { lookAtFleet } from './look-at-fleet.ts';
import { readLookedAt } from './looked-at.ts';
import { machineProbes, type Probes } from './probes.ts';
import { examineSettings } from './settings.ts';
import { startCommand } from './start-command.ts';

/** Lines of `stator doctor --help`. */
export const DOCTOR_HELP = `Usage: stator doctor [--json] [-- COMMAND LINE OF DYNAMO]
       stator doctor [--json] --pid PID

Looks at a deployment of Dynamo, and says what works with Stator, what works differently and what does not. It reads the
flags and variables of a program, and what the workers have written to discovery, and tries their addresses. It writes
no record. The last line is the command that starts Stator.

  -- COMMAND LINE    the program, such as: python -m dynamo.frontend --router-mode kv
                     (default: a frontend without flags); its variables are those of this shell
  --pid PID          a running program of Dynamo, with its own flags and variables (Linux)
  --json             prints findings as JSON

Exit code: 0 if everything works, 1 if something does not, 2 for a mistake in the arguments.
`;

/**
 * Runs `stator doctor`; resolves with what it prints.
 *
 * @throws UsageError for a mistake in its arguments; Error with one line if something will not work, after it has
 * printed the findings
 */
export async function runDoctor(
  argv: readonly string[],
  env: Environment,
  print: (text: string) => void,
  probes: Probes = machineProbes(),
): Promise<string> {
  const looked = await readLookedAt(argv, env);
  const program = readProgram(looked.words);
  const examined = examineSettings(program, looked.env);
  const fleet = examined.config === undefined ? [] : await lookAtFleet(examined.config, probes);
  const findings = [...examined.findings, ...fleet];
  const fails = findings.filter(({ verdict }) => verdict === 'fails').length;
  const start = fails === 0 ? startCommand(program, examined, looked) : undefined;
  const diagnosis = { findings, start };
  const text = looked.isJson ? renderDiagnosisJson(diagnosis) : renderDiagnosis(diagnosis);
  if (fails === 0) return text;
  print(text);
  throw new Error(`${fails} of ${findings.length} findings keep the deployment from working with Stator`);
}
