import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort } from '../free-port.ts';
import type { GatewayAnswer } from '../lambda-runtime.ts';
import { type SpawnedProcess, spawnNode, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { localizeTemplates, stacksIn, type Template } from './localize.ts';
import type { Statement } from './policy.ts';

/** A container of a task, as deployed. */
export interface DeployedContainer {
  readonly name: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** References to the values of further variables, by name. */
  readonly secrets: Readonly<Record<string, string>>;
}

/** A function, as deployed. */
export interface DeployedFunction {
  readonly environment: Readonly<Record<string, string>>;
  readonly statements: readonly Statement[];
  readonly handler: string;
  readonly runtime: string;
  readonly memoryMb: number;
  readonly timeoutSecs: number;
  /** Path of the zip of its code. */
  readonly zip: string;
}

/** Facts that a deployed stack reports about itself. None is read from the source of the stack. */
export interface DeployedStack {
  /** The template as synthesised. */
  readonly template: Template;
  /** Physical ids of the resources, by their ids in the template. Resources that moto ignores are absent. */
  readonly physicalIds: Readonly<Record<string, string>>;
  readonly outputs: Readonly<Record<string, string>>;
  readonly functions: Readonly<Record<string, DeployedFunction>>;
  /** Managed policies, by ARN. */
  readonly policies: Readonly<Record<string, readonly Statement[]>>;
  readonly tables: Readonly<
    Record<string, { readonly arn: string; readonly keys: object[]; readonly attributes: object[] }>
  >;
  /**
   * Responses that API Gateway gives itself, by its names for them. They come from the template, as moto drops them.
   */
  readonly gatewayAnswers: Readonly<Record<string, GatewayAnswer>>;
  readonly tasks: Readonly<
    Record<string, { readonly statements: readonly Statement[]; readonly containers: readonly DeployedContainer[] }>
  >;
}

/** Names of resources that an account has in addition to those of `cdk bootstrap`. */
export interface LeftOver {
  readonly stacks: readonly string[];
  readonly tables: readonly string[];
  readonly buckets: readonly string[];
  readonly functions: readonly string[];
  readonly roles: readonly string[];
}

/** A synthesised app and its folder. */
interface Assembly {
  readonly out: string;
  readonly templates: Readonly<Record<string, Template>>;
}

/** An AWS account imitated by moto, to which the real CDK CLI deploys. */
export interface Account {
  /** Endpoint of all services. */
  readonly url: string;
  /**
   * Synthesises the app with `context` and deploys all of its stacks. Resolves with them by name, in the order of
   * deployment.
   */
  deploy(context?: Readonly<Record<string, string>>): Promise<Readonly<Record<string, DeployedStack>>>;
  /** Runs `cdk destroy` on the last deployment, without protected stacks. Resolves with the names of what is left. */
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
  const url = `http://localhost:${port}`; // moto finds the bucket of the templates only by this name
  await waitUntil(async () => (await fetch(`${url}/moto-api/data.json`)).ok, { what: 'moto', timeoutMs: 30_000 });
  const env = {
    AWS_ENDPOINT_URL: url,
    AWS_ENDPOINT_URL_S3: url,
    AWS_ACCESS_KEY_ID: 'deployer',
    AWS_SECRET_ACCESS_KEY: 'deployer',
    AWS_REGION: 'us-east-1',
    AWS_MAX_ATTEMPTS: '1', // moto fails the same way at every retry
    CI: 'true',
    CDK_DISABLE_CLI_TELEMETRY: '1',
  };
  const cdk = (args: readonly string[], cwd: string): Promise<string> =>
    finished(spawnNode([CDK, ...args], { env, cwd }), `cdk ${args[0]}`).catch((error: Error) => {
      // moto's log names what it does not support
      throw new Error(`${error.message}\n${server.stderr().slice(-3000)}`, { cause: error });
    });
  const empty = join(folder, 'empty'); // in the folder of the app, the CLI would synthesise first
  mkdirSync(empty);
  const bootstrapped = cdk(['bootstrap', 'aws://123456789012/us-east-1'], empty); // runs while the app is synthesised
  bootstrapped.catch(() => {}); // each deployment awaits it and reports the error
  let round = 0;
  /** Synthesised apps by context, so that a second deployment with the same context synthesises nothing. */
  const assemblies = new Map<string, Assembly>();
  const synthesise = async (context: string) => {
    const out = join(folder, `out-${assemblies.size}`);
    const { context: flags } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { readonly context: object };
    const given = JSON.stringify({ ...flags, ...(JSON.parse(context) as object) }); // the CLI passes it in this form
    // Another test covers CDK's validation, which takes as long as everything else here.
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
      const stacks = stacksIn(deployed); // moto deletes protected stacks, too
      const names = stacks.filter(({ isProtected }) => !isProtected).map(({ display }) => display);
      const flags = ['--exclusively', '--force', '--no-notices'];
      await cdk(['destroy', '--app', deployed, ...names, ...flags], empty).catch((error: Error) => {
        // moto deletes a VPC before its route tables and reports that, but it still removes the stack.
        if (!error.message.includes('has dependencies')) throw error;
      });
      const script = resolve('test/support/aws/what_is_left.py');
      const text = await finished(spawnProgram(python, [script, url], { env }), 'listing what is left');
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
        value.replaceAll("'", ''), // API Gateway's syntax of constants
      ]);
      const body = ResponseTemplates['application/json'] ?? '';
      return [ResponseType, { status: Number(StatusCode ?? 500), headers: Object.fromEntries(headers), body }];
    }),
  );
}

/** Resolves with the standard output of a program that exits with 0. */
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
