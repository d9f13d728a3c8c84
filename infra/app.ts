/**
 * The CDK app. `npx cdk synth` needs neither network, credentials nor Docker. Context (`-c name=value`):
 *
 * | Name | Default | Meaning |
 * |---|---|---|
 * | `env` | `dev` | `dev`: one stack; `production`: several stacks, deployed with `--all` |
 * | `rollout` | `gradual` | of production: `gradual`: alarms watch a release on a tenth of the requests; `now`: it gets all, and nothing stops it |
 * | `config` | `infra/stator.config.ts` | the file that says what is deployed |
 */
import { fileURLToPath } from 'node:url';
import { App } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { DISABLE_ASSET_STAGING_CONTEXT } from 'aws-cdk-lib/cx-api';
import { PLANNER_FLEETS_FILE } from '../functions/planner/fleets-file.ts';
import { type BundleOptions, bundleFunction, PLANNER_FUNCTION_ENTRY, WAKE_FUNCTION_ENTRY } from './bundle.ts';
import { plannedFleetsOf } from './constructs/planner/planned-fleets.ts';
import { loadKubectl } from './kubectl.ts';
import { ENVIRONMENTS, hasPlanner, loadConfig, type Settings, SettingsError } from './settings/index.ts';
import { DevStack } from './stacks/dev-stack.ts';
import { ROLLOUTS } from './stacks/edge-stack.ts';
import type { PlannerCode } from './stacks/planner-stack.ts';
import { ProductionStacks } from './stacks/production-stacks.ts';

const app = new App();
try {
  await synthesize();
} catch (thrown) {
  if (!(thrown instanceof SettingsError)) throw thrown;
  process.stderr.write(`${thrown.message}\n`); // a stack trace would show this program to a user whose file is wrong
  process.exit(1); // at another end of the process the app writes what it has
}

async function synthesize(): Promise<void> {
  const environment = choose('env', ENVIRONMENTS);
  const rollout = choose('rollout', ROLLOUTS);
  if (environment === 'dev' && rollout === 'now')
    throw new SettingsError('-c rollout=now: dev is always replaced at once');
  const settings = await loadConfig(app.node.tryGetContext('config') as string | undefined);
  const httpFunctionCode = await bundled('http', {});
  if (environment === 'dev') new DevStack(app, settings.name, { httpFunctionCode, settings });
  else {
    const planner = await plannerCode(settings);
    const kubectl = settings.eks.apply ? await loadKubectl() : undefined;
    new ProductionStacks(app, settings.name, { httpFunctionCode, planner, kubectl, settings, rollout });
  }
  app.synth();
}

/**
 * Bundles the functions of the planner, if the deployment has one. The fleets are a file beside it: variables would
 * have no room for many.
 */
async function plannerCode(settings: Settings): Promise<PlannerCode | undefined> {
  if (!hasPlanner(settings)) return undefined;
  const files = { [PLANNER_FLEETS_FILE]: JSON.stringify(plannedFleetsOf(settings).specs) };
  return {
    planner: await bundled('planner', { entry: PLANNER_FUNCTION_ENTRY, files }),
    wake: await bundled('wake', { entry: WAKE_FUNCTION_ENTRY }),
  };
}

async function bundled(name: string, options: BundleOptions): Promise<Code> {
  return Code.fromAsset((await bundleFunction({ ...options, ...bundleFolder(name) })).directory);
}

/**
 * Returns a folder beside this program, which is there for one run. Assets that are not copied are read after it, so
 * that their folder lasts.
 */
function bundleFolder(name: string): BundleOptions {
  if (app.node.tryGetContext(DISABLE_ASSET_STAGING_CONTEXT))
    return { outdir: `node_modules/.cache/stator/functions/${name}` };
  return { outdir: fileURLToPath(new URL(name, import.meta.url)) };
}

/** Returns the value of `-c name=value`; the first of `values` if it is not given. */
function choose<const V extends string>(name: string, values: readonly [V, ...V[]]): V {
  const given = (app.node.tryGetContext(name) ?? values[0]) as unknown;
  const known = values.find((value) => value === given);
  if (known === undefined) throw new SettingsError(`-c ${name}=${String(given)}: must be one of ${values.join(', ')}`);
  return known;
}
