import {
  changedRequestsSchema,
  changeSchema,
  drainSchema,
  fleetSchema,
  hourSchema,
  issuedKeySchema,
  keySchema,
  keysSchema,
  plannedSchema,
  plannerSchema,
  requestDetailSchema,
  requestsSchema,
  whatIfSchema,
  workerDetailSchema,
} from '../../../console/index.ts';
import type { AnswerSchemas } from '../route.ts';

/** Answers and events of `/console/api`. */
export const VIEWS: AnswerSchemas = {
  json: { ConsoleFleet: fleetSchema, ConsoleRequests: requestsSchema, ConsolePlanner: plannerSchema },
  events: {
    fleet: ['ConsoleFleet', fleetSchema],
    change: ['ConsoleChange', changeSchema],
    hour: ['ConsoleHour', hourSchema],
    requests: ['ConsoleRequests', requestsSchema],
    changed: ['ConsoleChangedRequests', changedRequestsSchema],
    planner: ['ConsolePlanner', plannerSchema],
    planned: ['ConsolePlanned', plannedSchema],
  },
};

/** Answer of `/console/api/requests/{id}`. */
export const REQUEST: AnswerSchemas = { json: { ConsoleRequest: requestDetailSchema } };

/** Answer of `/console/api/workers/{id}`. */
export const WORKER: AnswerSchemas = { json: { ConsoleWorker: workerDetailSchema } };

/** Answer of `/console/api/drain/{id}`. */
export const DRAIN: AnswerSchemas = { json: { ConsoleDrain: drainSchema } };

/** Answer of `/console/api/what-if`. */
export const WHAT_IF: AnswerSchemas = { json: { ConsoleWhatIf: whatIfSchema } };

/** Answers of `/console/api/keys` and below it. */
export const KEYS: AnswerSchemas = { json: { ConsoleKeys: keysSchema } };
export const ISSUED_KEY: AnswerSchemas = { json: { ConsoleIssuedKey: issuedKeySchema } };
export const KEY: AnswerSchemas = { json: { ConsoleKey: keySchema } };
