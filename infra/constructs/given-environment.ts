import { Annotations, Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { ConfigError, faultOfVariable, machineToCome, type Process, resolveConfig } from '../../shared/config/index.ts';
import { SettingsError } from '../settings/index.ts';

type Variables = Readonly<Record<string, string>>;

interface Told {
  readonly process: Process;
  /** Arguments of the process. @default none */
  readonly argv?: readonly string[];
  /** Variables that the deployment sets by itself. */
  readonly own: Variables;
  /** Variables of `stator.config.ts`: each was checked by itself. */
  readonly given: Variables;
  /** Variables that are filled with secrets when the process starts. */
  readonly secrets: readonly string[];
  /** Path of `given` in the configuration file. */
  readonly path: string;
  /** Most bytes that the platform takes of all of them, as JSON. @default as many as there are */
  readonly bytesMax?: number;
}

const TOKEN = /\$\{Token\[[^\]]*\]\}/g;

/**
 * Puts a text in the place of each value that only CloudFormation knows: a name, or an address if names are refused.
 */
function knownText(process: Process, name: string, text: string, unknown: string): string {
  const named = text.replace(TOKEN, unknown);
  const isRefused = named !== text && faultOfVariable(process, name, named) !== undefined;
  return isRefused ? text.replace(TOKEN, `https://${unknown}`) : named;
}

/** Bytes of a secret. */
const SECRET_BYTES = 64;
/** Most bytes that CloudFormation adds to the name of a stack to name what is in it. */
const MADE_BYTES = 48;

/**
 * The environment of a process, of which `given` is the stronger part. What does not go together ends the synthesis as
 * it would end the process; what has no effect is a warning.
 * @throws SettingsError in one line with the place in the file
 */
export function completeEnvironment(scope: Construct, told: Told): Record<string, string> {
  const { process, argv = [], own, given, secrets, path, bytesMax = Number.POSITIVE_INFINITY } = told;
  const all = { ...own, ...given };
  if (Object.keys(given).length === 0 && argv.length === 0) return all;
  const unknown = 'u'.repeat(Math.max(SECRET_BYTES, Stack.of(scope).stackName.length + MADE_BYTES));
  const texts = Object.entries(all).map(([name, text]) => [name, knownText(process, name, text, unknown)]);
  const known = Object.fromEntries(texts) as Variables;
  const env = { ...known, ...Object.fromEntries(secrets.map((name) => [name, unknown])) };
  const bytes = Buffer.byteLength(JSON.stringify(known));
  if (bytes > bytesMax)
    throw new SettingsError(`${path}: ${bytesMax} bytes of variables are taken in all, and these are ${bytes}`);
  try {
    const { warnings } = resolveConfig(process, argv, env, { surroundings: machineToCome(process, env, argv) });
    warnings.forEach((warning, at) => {
      Annotations.of(scope).addWarningV2(`stator:${path}:${at}`, `${path}: ${warning}`);
    });
  } catch (thrown) {
    if (thrown instanceof ConfigError) throw new SettingsError(`${path}: ${thrown.problems.join('; ')}`);
    throw thrown;
  }
  return all;
}
