import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { ConfigError, machineToCome, type Process, resolveConfig } from '../../shared/config/index.ts';
import { SettingsError } from '../settings/index.ts';

type Variables = Readonly<Record<string, string>>;

interface Told {
  readonly process: Process;
  /** Arguments of the process. @default none */
  readonly argv?: readonly string[];
  /** What the deployment says by itself. */
  readonly own: Variables;
  /** What `stator.config.ts` says: each is right for itself. */
  readonly given: Variables;
  /** Variables that are filled with secrets when the process starts. */
  readonly secrets: readonly string[];
  /** Where `given` stands in the file. */
  readonly path: string;
  /** Most bytes of names and values that the platform takes. @default as many as there are */
  readonly bytesMax?: number;
}

/** What stands for a text that CloudFormation knows, or a secret: long enough for both. */
const UNKNOWN = 'u'.repeat(64);

/**
 * The environment of a process, of which `given` is the stronger part. What does not go together ends the synthesis as it would
 * end the process; what has no effect is a warning.
 * @throws SettingsError in one line with the place in the file
 */
export function completeEnvironment(scope: Construct, told: Told): Record<string, string> {
  const { process, argv = [], own, given, secrets, path, bytesMax = Number.POSITIVE_INFINITY } = told;
  const all = { ...own, ...given };
  if (Object.keys(given).length === 0 && argv.length === 0) return all;
  const known = Object.entries(all).map(([name, text]) => [name, text.replace(/\$\{Token\[[^\]]*\]\}/g, UNKNOWN)]);
  const env = Object.fromEntries([...known, ...secrets.map((name) => [name, UNKNOWN])]) as Variables;
  const bytes = Buffer.byteLength(known.flat().join(''));
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
