import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type BundleOptions,
  bundleFunction,
  PLANNER_FUNCTION_ENTRY,
  WAKE_FUNCTION_ENTRY,
} from '../../../infra/bundle.ts';
import { type LambdaRuntime, type LambdaRuntimeOptions, startLambdaRuntime } from '../lambda-runtime.ts';

type Env = Readonly<Record<string, string>>;

/** Starts the built planner under Lambda's runtime client, with the time-out of its construct. */
export function startPlannerFunction(env: Env, files: BundleOptions['files'] = {}): Promise<LambdaRuntime> {
  return startBuilt({ entry: PLANNER_FUNCTION_ENTRY, files }, { timeoutMs: 45_000, env });
}

/** Starts the built function that tells the planner of held requests, with the time-out of its construct. */
export function startWakeFunction(env: Env): Promise<LambdaRuntime> {
  return startBuilt({ entry: WAKE_FUNCTION_ENTRY }, { timeoutMs: 10_000, env });
}

/** Bundles a function into a folder of its own and starts it. Its end removes the folder. */
async function startBuilt(
  bundle: BundleOptions,
  options: Omit<LambdaRuntimeOptions, 'directory'>,
): Promise<LambdaRuntime> {
  const directory = mkdtempSync(join(tmpdir(), 'stator-function-'));
  await bundleFunction({ ...bundle, outdir: directory });
  const runtime = await startLambdaRuntime({ ...options, directory });
  return {
    ...runtime,
    async stop() {
      await runtime.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
