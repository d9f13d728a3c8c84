import { join } from 'node:path';
import { type Environment, type Settings, stateFolder } from '../../config/index.ts';
import { DynamoDbPlannerStore, FilePlannerStore, type PlannerStore } from '../../planner/index.ts';

type StoreSettings = Pick<Settings<'planner'>, 'plannerDir'> &
  Partial<Pick<Settings<'planner'>, 'plannerTable' | 'dynamodbEndpoint' | 'awsRegion'>>;

/** Returns the folder of a user's planners. */
export function plannerFolder({ plannerDir }: Pick<Settings<'planner'>, 'plannerDir'>, env: Environment): string {
  return plannerDir ?? join(stateFolder(env), 'planner');
}

/** Opens the store of a planner's decisions: the table if the settings name one, else the folder. */
export async function openPlannerStore(settings: StoreSettings, env: Environment): Promise<PlannerStore> {
  const { plannerTable: tableName, dynamodbEndpoint: endpoint, awsRegion: region } = settings;
  if (tableName === undefined) return new FilePlannerStore(plannerFolder(settings, env));
  return DynamoDbPlannerStore.open({ tableName, endpoint, region });
}
