export const HIT: string;
export const EXFIL: string;
export const SCRIPTS: string[];
export const LEAKS: string[];
