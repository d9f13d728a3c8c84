/**
 * @module discovery/table
 * What the rooms that keep state in DynamoDB share: calls with deadlines and back-off, failures in one line, and the table's
 * own time.
 */

export { type Item, type ItemChange, type ItemKey, type ItemOutcome, Table, type TableOptions } from './table.ts';
export { StoreError, type TableErrorCode, type TablePlace } from './table-errors.ts';
export { type Moment, momentOf, TableTime } from './table-time.ts';
