import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort } from '../free-port.ts';
import type { GatewayAnswer } from '../lambda-runtime.ts';
import { type SpawnedProcess, spawnNode, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { localizeTemplates, stacksIn, type Template } from './localize.ts';
import type { Statement } from './policy.ts';

/** A container of a task, as it was deployed. */
export interface DeployedContainer {
  readonly name: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Where the values of further variables come from. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** A function, as it was deployed. */
export interface DeployedFunction {
  readonly environment: Readonly<Record<string, string>>;
  readonly statements: readonly Statement[];
  readonly handler: string;
  readonly runtime: string;
  readonly memoryMb: number;
  readonly timeoutSecs: number;
  /** Path of its code. */
  readonly zip: string;
}

/** What a deployed stack says of itself: nothing here is taken from its source. */
export interface DeployedStack {
  /** As it was synthesised. */
  readonly template: Template;
  /** What its resources are called, by their ids in the template. What moto passes over is not among them. */
  readonly physicalIds: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, string>>;
  readonly functions: Readonly<Record<string, DeployedFunction>>;
  /** Managed policies by their ARN. */
  readonly policies: Readonly<Record<string, readonly Statement[]>>;
  readonly tables: Readonly<
    Record<string, { readonly arn: string; readonly keys: object[]; readonly attributes: object[] }>
  >;
  /** What API Gateway says by itself, by its names for it; not read back, as moto keeps none of it. */
  readonly gatewayAnswers: Readonly<Record<string, GatewayAnswer>>;
  readonly tasks: Readonly<
    Record<string, { readonly statements: readonly Statement[]; readonly containers: readonly DeployedContainer[] }>
  >;
}

/** Names of what an account has, beside what `cdk bootstrap` made. */
export interface LeftOver {
  readonly stacks: readonly string[];
  readonly tables: readonly string[];
  readonly buckets: readonly string[];
  readonly functions: readonly string[];
  readonly roles: readonly string[];
}

/** What was synthesised, and where. */
interface Assembly {
  readonly out: string;
  readonly templates: Readonly<Record<string, Template>>;
}

/** An AWS account imitated by moto, to which the real CDK CLI deploys. */
export interface Account {
  /** Of all services. */
  readonly url: string;
  /** Synthesises the app with `context` and deploys all of its stacks; resolves with them by name, in the order of their deployment. */
  deploy(context?: Readonly<Record<string, string>>): Promise<Readonly<Record<string, DeployedStack>>>;
  /** `cdk destroy` of what was deployed last, but for stacks that are protected; resolves with what is left. */
  destroy(): Promise<LeftOver>;
  stop(): Promise<void>;
}

const CDK = resolve('node_modules/.bin/cdk');
const COMMAND_MS_MAX = 120_000;

export function hasMoto(): boolean {
  return Boolean(process.env.STATOR_TEST_MOTO_PYTHON);
}

/** Starts moto and prepares it for the CDK, as `cdk bootstrap` prepares a new account. */
export async function openAccount(): Promise<Account> {
  const python = process.env.STATOR_TEST_MOTO_PYTHON;
  if (!python) throw new Error('STATOR_TEST_MOTO_PYTHON is not set: run through vitest, whose set-up installs moto');
  const folder = mkdtempSync(join(tmpdir(), 'stator-account-'));
  const port = String(await freePort());
  const server = spawnProgram(python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', port]);
  const url = `http://localhost:${port}`; // by this name alone moto finds the templates' bucket
  await waitUntil(async () => (await fetch(`${url}/moto-api/data.json`)).ok, { what: 'moto', timeoutMs: 30_000 });
  const env = {
    AWS_ENDPOINT_URL: url,
    AWS_ENDPOINT_URL_S3: url,
    AWS_ACCESS_KEY_ID: 'deployer',
    AWS_SECRET_ACCESS_KEY: 'deployer',
    AWS_REGION: 'us-east-1',
    AWS_MAX_ATTEMPTS: '1', // what moto does not know it will not learn
    CI: 'true',
    CDK_DISABLE_CLI_TELEMETRY: '1',
  };
  const cdk = (args: readonly string[], cwd: string): Promise<string> =>
    finished(spawnNode([CDK, ...args], { env, cwd }), `cdk ${args[0]}`).catch((error: Error) => {
      throw new Error(`${error.message}\n${server.stderr().slice(-3000)}`, { cause: error }); // moto says what it lacks
    });
  const empty = join(folder, 'empty'); // in the app's folder it would synthesise first
  mkdirSync(empty);
  const bootstrapped = cdk(['bootstrap', 'aws://123456789012/us-east-1'], empty); // meanwhile, what is deployed is synthesised
  bootstrapped.catch(() => {}); // known to whoever deploys
  let round = 0;
  /** What was synthesised, by its context: to deploy it once more, nobody need do it again. */
  const assemblies = new Map<string, Assembly>();
  const synthesise = async (context: string) => {
    const out = join(folder, `out-${assemblies.size}`);
    const { context: flags } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { readonly context: object };
    const given = JSON.stringify({ ...flags, ...(JSON.parse(context) as object) }); // as the CLI gives them
    // What CDK holds against rules of its own is seen elsewhere, and takes as long as all the rest.
    const app = { CDK_OUTDIR: out, CDK_CONTEXT_JSON: given, CDK_VALIDATION: 'false' };
    await finished(spawnNode(['infra/synth.mjs'], { env: app }), 'synthesis');
    const assembly = { out, templates: localizeTemplates(out) };
    assemblies.set(context, assembly);
    return assembly;
  };
  let deployed = '';
  return {
    url,
    async deploy(context = {}) {
      const key = JSON.stringify(context);
      const [{ out, templates }] = await Promise.all([assemblies.get(key) ?? synthesise(key), bootstrapped]);
      deployed = out;
      const flags = ['--all', '--method=direct', '--require-approval=never', '--no-notices'];
      await cdk(['deploy', '--app', out, ...flags], empty);
      const code = join(folder, `code-${round++}`);
      mkdirSync(code);
      const script = resolve('test/support/aws/read_back.py');
      const names = Object.keys(templates);
      const text = await finished(spawnProgram(python, [script, url, code, ...names], { env }), 'reading back');
      const found = JSON.parse(text) as Readonly<Record<string, Omit<DeployedStack, 'template' | 'gatewayAnswers'>>>;
      return Object.fromEntries(
        Object.entries(templates).map(([name, template]) => {
          return [name, { ...found[name]!, template, gatewayAnswers: gatewayAnswersIn(template) }];
        }),
      );
    },
    async destroy() {
      const stacks = stacksIn(deployed); // moto deletes those, too, that are protected
      const names = stacks.filter(({ isProtected }) => !isProtected).map(({ display }) => display);
      const flags = ['--exclusively', '--force', '--no-notices'];
      await cdk(['destroy', '--app', deployed, ...names, ...flags], empty).catch((error: Error) => {
        // It deletes a VPC before its route tables, says so, and the stack is gone all the same.
        if (!error.message.includes('has dependencies')) throw error;
      });
      const script = resolve('test/support/aws/what_is_left.py');
      const text = await finished(spawnProgram(python, [script, url], { env }), 'looking at what is left');
      return JSON.parse(text) as LeftOver;
    },
    async stop() {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function gatewayAnswersIn({ Resources }: Template): DeployedStack['gatewayAnswers'] {
  const responses = Object.values(Resources).filter(({ Type }) => Type === 'AWS::ApiGateway::GatewayResponse');
  return Object.fromEntries(
    responses.map(({ Properties = {} }) => {
      const {
        ResponseType,
        StatusCode,
        ResponseTemplates,
        ResponseParameters = {},
      } = Properties as {
        readonly ResponseType: string;
        readonly StatusCode?: string;
        readonly ResponseTemplates: Readonly<Record<string, string>>;
        readonly ResponseParameters?: Readonly<Record<string, string>>;
      };
      const headers = Object.entries(ResponseParameters).map(([name, value]) => [
        name.replace('gatewayresponse.header.', ''),
        value.replaceAll("'", ''), // as the gateway has constants
      ]);
      const body = ResponseTemplates['application/json'] ?? '';
      return [ResponseType, { status: Number(StatusCode ?? 500), headers: Object.fromEntries(headers), body }];
    }),
  );
}

/** Standard output of a program that ends well. */
async function finished(child: SpawnedProcess, what: string): Promise<string> {
  const deadline = setTimeout(() => child.signal('SIGKILL'), COMMAND_MS_MAX);
  const code = await child.exited;
  clearTimeout(deadline);
  if (code !== 0) throw new Error(`${what} ended with ${code}\n${child.stdout()}\n${child.stderr()}`);
  return child.stdout();
}

/** Unpacks the code of a function into `directory`. */
export async function unpack({ zip }: DeployedFunction, directory: string): Promise<readonly string[]> {
  await finished(spawnProgram('python3', ['-m', 'zipfile', '-e', zip, directory]), 'unpacking');
  return readdirSync(directory);
}

/** Bytes of the package of a function. */
export function packedBytes({ zip }: DeployedFunction): number {
  return readFileSync(zip).length;
}
