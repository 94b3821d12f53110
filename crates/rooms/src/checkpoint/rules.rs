//! The findings of checkpoints and of the drives that hold them.

use crate::rules::rules;

rules! { Checkpoint:
    JOBS = "jobs", [Ok],
        "No job keeps checkpoints in the directories that are looked at.",
        since "", to_do "";
    DURABLE = "durable", [Ok, Notice, Warning],
        "How old the newest complete checkpoint of a job on an SSD or shared file system is. NOTICE: there is none in the directories that are watched. WARNING: the job runs, and the \
         copy is older than its bound `staleness_max_s`.",
        since "when the bound passed; the beginning of the session where there is no copy",
        to_do "The job's decisions on the page say why no copy was made; `surefoot checkpoint list` shows what is there.",
        next "surefoot checkpoint list",
            "Changes nothing. It shows every checkpoint of every job, and in which tiers it is complete.";
    DAMAGED = "damaged", [Warning, Critical],
        "The newest checkpoint of a job in one of its tiers is damaged. CRITICAL: there is no other to restart from.",
        since "", to_do "`surefoot checkpoint verify DIRECTORY` says which rank and file.",
        next "surefoot checkpoint verify",
            "Changes nothing. It reads every page, and says which copies are whole, repairable or lost; `scrub` repairs.";
    LOST = "lost", [Warning, Critical],
        "A job had checkpoints in one of its directories, as its file `nodes` or its journal says, and none is left there. CRITICAL: there is no \
         intact one elsewhere to restart from.",
        since "", to_do "Move the directory back if it was moved. `surefoot checkpoint verify DIRECTORY` says how it is known; `surefoot checkpoint \
         remove JOB` ends it where it was wanted.",
        next "surefoot checkpoint verify",
            "Changes nothing. It says which checkpoints are gone and how that is known, and which copies are left and whole.";
    REDUNDANCY = "redundancy", [Notice],
        "The redundancy between the ranks of a job (`partner`, `parity`) does not protect from the loss of a node, or from no loss.",
        since "", to_do "The sentence says which loss, and why; often all ranks of a group are on one node.";
    DIRECTORY = "directory", [Warning],
        "A directory of `--checkpoints` cannot be looked at.",
        since "", to_do "Create it, give the watch the right to read it, or name another.";
    PROBLEMS = "problems", [Notice],
        "Files of root among the checkpoints are damaged or of another kind.",
        since "", to_do "The evidence names them.";
    PROBLEMS_OF_USER = "problems-", [Notice],
        "Files of another user among the checkpoints are damaged or of another kind; the user's number follows.",
        since "", to_do "The evidence names them.";
    PROBLEMS_LEFT_OUT = "problems-left-out", [Notice],
        "There are more such files than one look lists.",
        since "", to_do "`surefoot checkpoint list DIRECTORY` lists those of one directory.";
    LEFT_OUT = "left-out", [Notice],
        "There are more jobs or files in the directories than one look reads.",
        since "", to_do "Name smaller directories with `--checkpoints`, or remove the checkpoints of jobs that ended.",
        next "surefoot checkpoint list",
            "Changes nothing. It shows every checkpoint of every job, and its size.";
    WORN = "worn", [Notice, Warning],
        "A drive has used at least 90 % (NOTICE) or 100 % (WARNING) of its rated life (settings `checkpoint.worn_notice_percent`, `checkpoint.worn_warning_percent`).",
        since "", to_do "Plan its replacement. `surefoot checkpoint drive` shows what the checkpoints write a day.",
        next "surefoot checkpoint drive",
            "Changes nothing. It shows how worn each drive is, and what checkpoints write to it a day.";
    DRIVE_WARNING = "drive-warning", [Warning],
        "A drive sets bits of its critical warning.",
        since "", to_do "The sentence names them. Copy what is on the drive, and replace it.",
        next "surefoot checkpoint drive",
            "Changes nothing. It shows what the drive itself reports.";
    SPARE = "spare", [Warning],
        "A drive has less than 10 % of its spare flash left (setting `checkpoint.spare_warning_percent`).",
        since "", to_do "Replace the drive.",
        next "surefoot checkpoint drive",
            "Changes nothing. It shows what the drive itself reports.";
    MEDIA_ERRORS = "media-errors", [Notice],
        "A drive counts errors that it could not correct.",
        since "", to_do "`surefoot checkpoint verify` finds what they damaged. Replace the drive if the count rises.",
        next "surefoot checkpoint verify",
            "Changes nothing. It reads every page, and says which copies are damaged.";
}
