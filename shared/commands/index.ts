/**
 * @module commands
 * The commands of `stator` that do not run a process, with a file or folder for each. `stator` loads a command when it
 * runs it.
 */
export { ARTIFACTS_HELP, runArtifacts } from './artifacts.ts';
export { chatWith } from './chat.ts';
export { CONFIG_HELP, showConfig, UsageError } from './config.ts';
export { DEPLOY_HELP, runDeploy } from './deploy.ts';
export { DOCTOR_HELP, runDoctor } from './doctor/command.ts';
export { runFleet } from './fleet/refresh.ts';
export { FLEET_HELP } from './fleet/refresh-arguments.ts';
export { KEYS_HELP, runKeys } from './keys.ts';
export { MODELS_HELP, runModels } from './models.ts';
export type { InvocationContext } from './planner/invocation.ts';
export { type LocalRun, openLocalPlanner } from './planner/local-planner.ts';
export { openHeldWaker } from './planner/open-held-waker.ts';
export { openPlanner } from './planner/open-planner.ts';
export { openQueuePlanner } from './planner/open-queue-planner.ts';
export { localPlanners, storedPlanners } from './planner/planner-sources.ts';
export { localPlanning, rollupIntervalMs } from './planner/planning.ts';
export { queueHandler } from './planner/queue-handler.ts';
export { startedWorkers } from './planner/started-workers.ts';
export { streamHandler } from './planner/stream-handler.ts';
export { EXPLAIN_PLANNER_HELP, explainPlanner } from './planner-explain.ts';
export { REPORT_PLANNER_HELP, reportPlanner } from './planner-report.ts';
export { PROFILE_HELP, runProfile } from './profile/command.ts';
export { EXPLAIN_HELP, explainRouting } from './router-explain.ts';
export { runSecrets, SECRETS_HELP } from './secrets/command.ts';
