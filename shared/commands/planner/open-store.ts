import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Environment, Settings } from '../../config/index.ts';
import { DynamoDbPlannerStore, FilePlannerStore, type PlannerStore } from '../../planner/index.ts';

type StoreSettings = Pick<Settings<'planner'>, 'plannerDir'> &
  Partial<Pick<Settings<'planner'>, 'plannerTable' | 'dynamodbEndpoint' | 'awsRegion'>>;

/** The folder of a user's planners. */
export function plannerFolder({ plannerDir }: Pick<Settings<'planner'>, 'plannerDir'>, env: Environment): string {
  return plannerDir ?? join(env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'stator', 'planner');
}

/** Where a planner keeps what it decided: the table, where there is one, else the folder. */
export async function openPlannerStore(settings: StoreSettings, env: Environment): Promise<PlannerStore> {
  const { plannerTable: tableName, dynamodbEndpoint: endpoint, awsRegion: region } = settings;
  if (tableName === undefined) return new FilePlannerStore(plannerFolder(settings, env));
  return DynamoDbPlannerStore.open({ tableName, endpoint, region });
}
