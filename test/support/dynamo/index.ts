/**
 * @module test/support/dynamo Real processes of Dynamo, and the places where they meet those of Stator. The global
 * set-up installs Dynamo once per user; suites ask `hasDynamo()` whether it could.
 */
export { canMeet, type MeetingPlane, type MeetingStore, useMeeting } from './meetings.ts';
export {
  DYNAMO_MODEL,
  DYNAMO_MODEL_FOLDER,
  type Dynamo,
  type DynamoProcess,
  hasDynamo,
  type MockWorkerOptions,
  useDynamo,
} from './processes.ts';
