import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { ConfigError, type Settings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import { type PlannerConfig, PlannerConfigError, type PlannerLaw, parsePlannerConfig } from './config.ts';

/**
 * Reads the planner's configuration out of `--planner-config`.
 * @param preset values for keys that it leaves out
 * @param fixed values that hold even if it says otherwise
 * @throws ConfigError
 */
export async function readPlannerConfig(
  { plannerConfig: given }: Pick<Settings<'planner' | 'simulate' | 'local'>, 'plannerConfig'>,
  preset: object,
  fixed: object,
  law: PlannerLaw | undefined,
): Promise<PlannerConfig> {
  const said = given === undefined ? {} : given.kind === 'json' ? given.value : await readConfigFile(given.path);
  if (typeof said !== 'object' || said === null || Array.isArray(said)) {
    throw new ConfigError(['--planner-config: allowed: an object of keys and values']);
  }
  try {
    return parsePlannerConfig({ ...preset, ...said, ...fixed }, law);
  } catch (thrown) {
    if (thrown instanceof PlannerConfigError) throw new ConfigError(thrown.problems);
    throw thrown;
  }
}

async function readConfigFile(path: string): Promise<unknown> {
  try {
    return parse(await readFile(path, 'utf8')); // JSON is YAML
  } catch (thrown) {
    throw new ConfigError([`--planner-config ${path}: ${reasonOf(thrown)}`]);
  }
}
