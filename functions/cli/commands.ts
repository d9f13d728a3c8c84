import { SYSTEM } from '../../shared/clock/index.ts';
import type { Command, Environment, Process, ResolvedConfig } from '../../shared/config/index.ts';
import { stayAlive, stopSignal } from '../process.ts';

/** A file of this folder that runs one command. */
interface CommandModule<P extends Process> {
  /** Runs until the work is done or a signal stops the process. Resolves with the exit code. */
  run(config: ResolvedConfig<P>, env: Environment): Promise<number>;
}

/** A command that runs a process. */
export interface ProcessCommand {
  readonly about: string;
  start(config: ResolvedConfig<Command>, env: Environment): Promise<number>;
}

function processCommand<P extends Process>(about: string, load: () => Promise<CommandModule<P>>): ProcessCommand {
  return {
    about,
    // main.ts resolves the settings for the command it starts, so P is the process of the configuration.
    start: async (config, env) => (await load()).run(config as unknown as ResolvedConfig<P>, env),
  };
}

/** Every command in the order of `stator --help`. A module is loaded only when its command runs. */
export const COMMANDS: Readonly<Record<Command, ProcessCommand>> = {
  local: processCommand<'local'>(
    'Runs a frontend and its workers on this machine, without any other service',
    () => import('./local.ts'),
  ),
  frontend: processCommand<'frontend'>('Runs the OpenAI-compatible HTTP server', () => import('./frontend.ts')),
  worker: processCommand<'worker'>('Runs a worker, which drives one engine', () => import('./worker.ts')),
  router: processCommand<'router'>(
    'Runs a router of its own, or an indexer, slot tracker or selection service',
    () => import('./router.ts'),
  ),
  planner: processCommand<'planner'>(
    'Decides how many workers a fleet needs, and scales it',
    () => import('./planner.ts'),
  ),
  host: processCommand<'host'>(
    'Runs the GPU workers of one EC2 instance, from its launch to its end',
    () => import('./host.ts'),
  ),
  simulate: processCommand<'simulate'>(
    'Simulates a fleet under a workload, in virtual time',
    () => import('./simulate.ts'),
  ),
};

/** A command that does one thing and ends. Its code is loaded when it is called. */
export interface OneShotCommand {
  readonly about: string;
  load(): Promise<{
    readonly help: string;
    /** Resolves with the text to print. @param print prints a part of it earlier */
    run(argv: readonly string[], env: Environment, print: (text: string) => void): Promise<string>;
  }>;
}

/** Every command that runs no process, in the order of `stator --help`. */
export const ONE_SHOT_COMMANDS: Readonly<Record<string, OneShotCommand>> = {
  artifacts: {
    about: 'Uploads the files of a model that frontends need to a bucket, and fetches weights from one',
    load: async () => {
      const { ARTIFACTS_HELP: help, runArtifacts, UsageError } = await import('../../shared/commands/index.ts');
      const stopped = new AbortController();
      return {
        help,
        run: (argv, env, print) => {
          // As the first process of a container, it would not end by the signal itself.
          if (argv[0] === 'fetch') void stopSignal().then((why) => stopped.abort(new UsageError(`stopped (${why})`)));
          return stayAlive(() => runArtifacts(argv, env, { clock: SYSTEM.clock, signal: stopped.signal, print }));
        },
      };
    },
  },
  keys: {
    about: 'Creates, lists, rotates and revokes API keys',
    load: async () => {
      const { KEYS_HELP: help, runKeys } = await import('../../shared/commands/index.ts');
      return { help, run: (argv, env) => runKeys(argv, env, SYSTEM.clock) };
    },
  },
  models: {
    about: 'Lists or forgets the models that a fleet remembers without workers',
    load: async () => {
      const { MODELS_HELP: help, runModels: run } = await import('../../shared/commands/index.ts');
      return { help, run };
    },
  },
  profile: {
    about: 'Measures a worker, for the planner and the simulator',
    load: async () => {
      const { PROFILE_HELP: help, runProfile } = await import('../../shared/commands/index.ts');
      return { help, run: (argv, env) => runProfile(argv, env, SYSTEM) };
    },
  },
  secrets: {
    about: 'Rotates the secrets with which the processes of a fleet on AWS authenticate each other',
    load: async () => {
      const { runSecrets, SECRETS_HELP: help } = await import('../../shared/commands/index.ts');
      const tell = (line: string): void => void process.stderr.write(`stator: ${line}\n`);
      return {
        help,
        run: (argv) => stayAlive(() => runSecrets(argv, SYSTEM.clock, tell)),
      };
    },
  },
  fleet: {
    about: 'Refreshes the machines of the Auto Scaling groups of a fleet on EC2',
    load: async () => {
      const { FLEET_HELP: help, runFleet, UsageError } = await import('../../shared/commands/index.ts');
      const tell = (line: string): void => void process.stderr.write(`stator: ${line}\n`);
      const stopped = new AbortController();
      return {
        help,
        run: (argv) => {
          void stopSignal().then((why) => stopped.abort(new UsageError(`stopped (${why}); what has started goes on`)));
          return stayAlive(() => runFleet(argv, { clock: SYSTEM.clock, signal: stopped.signal, tell }));
        },
      };
    },
  },
  doctor: {
    about: 'Looks at a deployment of Dynamo, and says what works with Stator',
    load: async () => {
      const { DOCTOR_HELP: help, runDoctor } = await import('../../shared/commands/index.ts');
      return { help, run: (argv, env, print) => stayAlive(() => runDoctor(argv, env, print)) };
    },
  },
  deploy: {
    about: 'Estimates the cost of a deployment to AWS, or checks the quotas of the account',
    load: async () => {
      const { DEPLOY_HELP: help, runDeploy } = await import('../../shared/commands/index.ts');
      return { help, run: (argv, _env, print) => runDeploy(argv, print) };
    },
  },
};
