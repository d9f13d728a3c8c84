import type { Command } from '../../config/index.ts';
import { UsageError } from '../config.ts';

/** Roles of Dynamo's programs that matter to the doctor. */
export type Role = 'frontend' | 'worker' | 'other';

/** A program of Dynamo's, as its command line names it. */
export interface DynamoProgram {
  /** Module, such as `dynamo.frontend`. */
  readonly module: string;
  readonly role: Role;
  /** Command of Stator whose settings are those of the program. */
  readonly command: Command;
  /** Settings that the module itself stands for, as flags of Stator. */
  readonly implied: readonly string[];
  readonly flags: readonly string[];
}

type Program = Omit<DynamoProgram, 'module' | 'flags'>;

const PROGRAMS: Readonly<Record<string, Program>> = {
  'dynamo.frontend': { role: 'frontend', command: 'frontend', implied: [] },
  'dynamo.vllm': { role: 'worker', command: 'worker', implied: ['--engine=vllm'] },
  'dynamo.sglang': { role: 'worker', command: 'worker', implied: ['--engine=sglang'] },
  'dynamo.trtllm': { role: 'worker', command: 'worker', implied: ['--engine=trtllm'] },
  'dynamo.mocker': { role: 'worker', command: 'worker', implied: ['--engine=mocker'] },
  'dynamo.router': { role: 'other', command: 'router', implied: [] },
  'dynamo.planner': { role: 'other', command: 'planner', implied: [] },
};

/**
 * Reads a command line of Dynamo's: `python -m dynamo.frontend --router-mode kv`, or only its flags, which then are
 * those of a frontend.
 *
 * @throws UsageError if it names a program that Stator has no counterpart for
 */
export function readProgram(words: readonly string[]): DynamoProgram {
  const at = words.findIndex((word) => /^dynamo\.\w+$/.test(word));
  if (at < 0) {
    const stray = words[0];
    if (stray !== undefined && !stray.startsWith('-')) {
      throw new UsageError(`${JSON.stringify(stray)}: expected python -m dynamo.frontend, or flags of it`);
    }
    return { module: 'dynamo.frontend', ...PROGRAMS['dynamo.frontend']!, flags: words };
  }
  const module = words[at]!;
  if (!Object.hasOwn(PROGRAMS, module)) {
    throw new UsageError(`${module} is not a program that Stator replaces: ${Object.keys(PROGRAMS).join(', ')}`);
  }
  return { module, ...PROGRAMS[module]!, flags: words.slice(at + 1) };
}
