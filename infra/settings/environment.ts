import * as z from 'zod';
import {
  ConfigError,
  faultOfVariable,
  machineToCome,
  type Row,
  resolveConfig,
  rowOfVariable,
  TABLE,
} from '../../shared/config/index.ts';
import { ROLES, type Role, refusalOf } from './refused-variables.ts';

/** Variables of a process beside those that the deployment sets: settings of docs/configuration.md by their names. */
export const Environment = z
  .record(
    z.string(),
    z.union([z.string(), z.number(), z.boolean()], 'must be a text, a number, true or false').transform(String),
  )
  .default({});

/** Place where a process will run, as far as it is known before the deployment. */
export interface Place {
  readonly role: Role;
  /** The image is the user's, who knows what files it has. */
  readonly hasOwnImage: boolean;
  /** Engine of a worker. @default mocker */
  readonly engine?: 'vllm' | 'sglang';
}

/** The only folder in which a process of a deployment may write. */
const SCRATCH = '/tmp/';
/**
 * Says of each variable of `environment` that cannot be given there why, under `path`.
 * @returns whether all can
 */
export function checkEnvironment(
  environment: z.infer<typeof Environment>,
  place: Place,
  path: readonly string[],
  context: z.RefinementCtx,
): boolean {
  const problems = Object.entries(environment).flatMap(([name, text]) => {
    const message = problemOf(name, text, place);
    return message === undefined ? [] : [{ name, message }];
  });
  for (const { name, message } of problems) context.addIssue({ code: 'custom', path: [...path, name], message });
  return problems.length === 0;
}

function problemOf(name: string, text: string, place: Place): string | undefined {
  const { process, beside } = ROLES[place.role];
  const refusal = refusalOf(place.role, name);
  if (refusal !== undefined) return refusal;
  const fault = faultOfVariable(process, name, text);
  if (fault?.kind === 'elsewhere') return `${fault.says}, not by ${beside}`;
  const row = rowOfVariable(process, name);
  return fault?.says ?? (row === undefined ? undefined : problemOfPath(row, text, place));
}

/** A path leads to what the image has, or to the one folder that is not read-only. */
function problemOfPath({ type: { target } }: Row, text: string, { role, hasOwnImage }: Place): string | undefined {
  if (target === undefined || /^\s*[{[]/.test(text)) return undefined;
  if (!text.startsWith('/')) return `${JSON.stringify(text)}: must be a whole path, which begins with /`;
  if (target.isWritten) {
    return text.startsWith(SCRATCH)
      ? undefined
      : `${JSON.stringify(text)}: must lie in ${SCRATCH}: all else is read-only`;
  }
  if (role === 'function') return `names a ${target.kind}, and the function has nothing but its code`;
  return hasOwnImage
    ? undefined
    : `names a ${target.kind}, which the built image has not: set images.edge to one that has`;
}

/** Arguments of `stator worker` in addition to those of the deployment, for settings that have only a flag. */
export const Arguments = z.array(z.string().min(1)).default([]);

/** Returns what is wrong with arguments of workers that have this `environment`, which is valid. */
export function problemsOfArguments(
  argv: readonly string[],
  environment: z.infer<typeof Environment>,
  place: Place,
): readonly string[] {
  const { engine } = place;
  const own = engine === undefined ? ['--engine=mocker', '--model-name=a'] : [`--engine=${engine}`, '--model=a'];
  try {
    const { given } = resolveConfig('worker', [...own, ...argv], environment, {
      surroundings: machineToCome('worker', environment, argv),
    });
    const counted = [...given].filter(([, { kind }]) => kind === 'flag');
    return counted.flatMap(([setting, { name, texts }]) => {
      const row = TABLE.get(setting);
      const isOwn = own.includes(`${name}=${texts.join()}`);
      const problem = row === undefined || isOwn ? undefined : problemOfFlag(row, texts, place);
      return problem === undefined ? [] : [`${name} ${problem}`];
    });
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.problems;
    throw thrown;
  }
}

function problemOfFlag(row: Row, texts: readonly string[], place: Place): string | undefined {
  const [refusal] = [...row.env, ...row.flags].flatMap((name) => refusalOf(place.role, name) ?? []);
  if (refusal !== undefined) return refusal;
  if (row.type.isSecret) return 'is a secret, and anyone who can see the deployment can read it';
  return texts.map((text) => problemOfPath(row, text, place)).find((problem) => problem !== undefined);
}
