import type { Command, Environment, Process, ResolvedConfig } from '../../shared/config/index.ts';

/** A file of this folder that runs one command. */
interface CommandModule<P extends Process> {
  /** Runs until the work is done or the process is told to stop; resolves with the exit code. */
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
    'Everything on this machine: a frontend and its workers, no other service',
    () => import('./local.ts'),
  ),
  frontend: processCommand<'frontend'>('The OpenAI-compatible HTTP server', () => import('./frontend.ts')),
  worker: processCommand<'worker'>('A worker that drives one engine', () => import('./worker.ts')),
  router: processCommand<'router'>(
    'The standalone router, indexer, slot tracker or selection service',
    () => import('./router.ts'),
  ),
  planner: processCommand<'planner'>('Decides how many workers a fleet has', () => import('./planner.ts')),
  simulate: processCommand<'simulate'>('Replays a workload in virtual time', () => import('./simulate.ts')),
};
