/** Name of the file beside the planner's function that holds its fleets, as `STATOR_PLANNER_FLEETS` names them. */
export const PLANNER_FLEETS_FILE = 'fleets.json';
