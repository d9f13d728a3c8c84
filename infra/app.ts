/**
 * The CDK app. `npx cdk synth` needs neither network, credentials nor Docker. Context (`-c name=value`):
 *
 * | Name | Default | Meaning |
 * |---|---|---|
 * | `env` | `dev` | `dev`: one stack; `production`: several stacks, deployed with `--all` |
 * | `config` | `infra/stator.config.ts` | the file that says what is deployed |
 */
import { App } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import { bundleFunction } from './bundle.ts';
import { ENVIRONMENTS, loadConfig } from './settings/index.ts';
import { DevStack } from './stacks/dev-stack.ts';
import { ProductionStacks } from './stacks/production-stacks.ts';

const app = new App();
const environment = (app.node.tryGetContext('env') ?? 'dev') as unknown;
if (!ENVIRONMENTS.some((known) => known === environment)) {
  throw new Error(`-c env=${String(environment)}: must be one of ${ENVIRONMENTS.join(', ')}`);
}
const settings = await loadConfig(app.node.tryGetContext('config') as string | undefined);
const httpFunctionCode = Code.fromAsset((await bundleFunction()).directory);
if (environment === 'dev') new DevStack(app, settings.name, { httpFunctionCode, settings });
else new ProductionStacks(app, settings.name, { httpFunctionCode, settings });
app.synth();
