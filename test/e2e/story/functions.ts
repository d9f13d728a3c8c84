import { join } from 'node:path';
import { type Fleet, waitUntil } from '../../support/index.ts';
import { startPlannerFunction, startWakeFunction } from '../../support/lambda/built-function.ts';
import { type FunctionBed, MODEL } from '../../support/lambda/function-bed.ts';
import { type LambdaRuntime, startLambdaRuntime } from '../../support/lambda-runtime.ts';
import { FLEET } from './fleet.ts';

/** Table of the planner. */
export const PLANS = 'plans';
type Env = Readonly<Record<string, string>>;

/** Requests that the HTTP function serves at a time: six streams, those of a load, and answers that have just ended. */
const ENVIRONMENTS = 9;

/** The functions of a deployment with a fleet of GPUs, as they are built. */
export interface Functions {
  /** Answers clients, and notes in the planner's table which requests it holds. */
  readonly http: LambdaRuntime;
  /** Tells the planner what is held. */
  readonly wake: LambdaRuntime;
  /** Decides and acts. */
  readonly planner: LambdaRuntime;
}

interface FunctionsOptions {
  readonly bed: FunctionBed;
  /** Variables of the processes that write to the planner's queue. */
  readonly queue: Env;
  /** Address by which the planner reaches DynamoDB. */
  readonly plannerTable: string;
  readonly scalingUrl: string;
}

export async function startFunctions({ bed, queue, plannerTable, scalingUrl }: FunctionsOptions): Promise<Functions> {
  const common = { STATOR_PLANNER_TABLE: PLANS, DYN_LOGGING_JSONL: 'true' };
  const planner = await startPlannerFunction({
    ...bed.where,
    ...common,
    STATOR_DYNAMODB_ENDPOINT: plannerTable,
    STATOR_PLANNER_FLEETS: JSON.stringify({ fleets: [FLEET] }),
    AWS_ENDPOINT_URL_AUTO_SCALING: scalingUrl,
  });
  const wake = await startWakeFunction({ ...common, ...queue, STATOR_DYNAMODB_ENDPOINT: bed.server.url });
  return { http: await startHttp(bed, common), wake, planner };
}

function startHttp({ bundle: { directory }, where }: FunctionBed, common: Env): Promise<LambdaRuntime> {
  const env = {
    ...where,
    ...common,
    STATOR_ARTIFACTS_CACHE_DIR: join(directory, 'models'), // a function has a /tmp of its own
    STATOR_AUTH: 'off',
    STATOR_HOLD_TIMEOUT: '120',
    DYN_TCP_RPC_HOST: '127.0.0.1',
  };
  return startLambdaRuntime({ directory, env, environmentsMax: ENVIRONMENTS, spread: true });
}

/**
 * Runs a worker for a moment, because the function holds only requests of models that the deployment has served before.
 * Then starts environments: on a busy machine, many cold starts at once take too long.
 */
export async function prepareHttp(
  { http }: Pick<Functions, 'http'>,
  fleet: Pick<Fleet, 'spawn'>,
  workerArguments: readonly string[],
  env: Env,
): Promise<void> {
  const isServed = async (): Promise<boolean> => (await fetch(`${http.url}/health`)).ok;
  const isKnown = async (): Promise<boolean> => {
    const isThere = (await (await fetch(`${http.url}/v1/models`)).text()).includes(MODEL);
    await http.idle();
    return isThere;
  };
  const isWarm = async (): Promise<boolean> => {
    for (let at = 0; at < ENVIRONMENTS; at++) {
      if (!(await isServed())) return false;
      await http.idle();
    }
    return true;
  };
  const worker = fleet.spawn(['worker', ...workerArguments], { ...env, DYN_SYSTEM_HOST: '127.0.0.1' });
  await waitUntil(isKnown, { what: 'the model in the list', timeoutMs: 60_000 });
  worker.signal('SIGTERM');
  await worker.exited;
  await Promise.all(Array.from({ length: ENVIRONMENTS }, isServed));
  await http.idle();
  await waitUntil(isWarm, { what: 'warm environments', timeoutMs: 60_000 });
}
