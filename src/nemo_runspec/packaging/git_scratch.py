"""git trees that are not in a repository: the working tree as it is now, a tree without some of its paths.

git writes their index and objects into a folder of ours and reads the repository's objects as alternates, so that
nothing is written into the repository (git's documentation, "Environment Variables": GIT_INDEX_FILE,
GIT_OBJECT_DIRECTORY, GIT_ALTERNATE_OBJECT_DIRECTORIES). What writes does not see the alternates: git would change the
times of an object there that it was about to write (seen in 2.39).
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging import cache
from nemo_runspec.packaging.checkout import Checkout, attribute_files
from nemo_runspec.packaging.git import GitError, Repository, joined
from nemo_runspec.packaging.model import GitTree


class GitScratch:
    """A folder for indexes and objects, made when it is first needed. What is in it lasts as long as `git_scratch()`.

    Args:
        checkout: what git need not be asked again, of it and of its submodules.
    """

    def __init__(self, open_folder: Callable[[], Path], checkout: Checkout | None = None) -> None:
        self._open_folder = open_folder
        self._numbers = itertools.count()
        self._checkout = checkout

    @cached_property
    def folder(self) -> Path:
        """Where it is."""
        return self._open_folder()

    def as_it_is(self, repository: Repository) -> GitTree:
        """The working tree now, new files too unless git ignores them, as `git add --all` and a commit would have it.

        Raises:
            UserError: a file that git cannot read.
        """
        ours = self._place(repository)
        index = self._file(repository, "index")
        with suppress(FileNotFoundError):
            shutil.copy2(index, ours.extra["GIT_INDEX_FILE"])
        try:
            _blind(ours).run("add", "--all", "--", ".")
            return GitTree(ours, _written(ours))
        except GitError as error:
            raise UserError(
                f"the working tree cannot be packaged as it is: {error}", where=str(repository.folder)
            ) from None

    def without(self, tree: GitTree, paths: Iterable[str]) -> GitTree:
        """The tree without these of its paths."""
        ours = self._place(tree.repository)
        ours.run("read-tree", tree.treeish)
        ours.run("update-index", "--force-remove", "-z", "--stdin", given=joined(paths))
        return GitTree(ours, _written(ours), tree.prefix)

    def index_of(self, tree: GitTree) -> Repository:
        """The repository with an index of this tree, for questions that git asks of an index."""
        ours = self._place(tree.repository)
        ours.run("read-tree", tree.treeish)
        return ours

    def tree_of(self, repository: Repository, commit: str) -> str | None:
        """The id of a commit's tree, None where the commit is not there."""
        known = self._known(repository)
        if known is not None and known.commit == commit and known.tree is not None:
            return known.tree
        return repository.ask("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")

    def attribute_files(self, repository: Repository) -> tuple[Path, ...]:
        """Files outside of its working tree that say which attributes its paths have."""
        known = self._known(repository)
        return attribute_files(repository) if known is None else known.attribute_files

    def _file(self, repository: Repository, name: str) -> Path:
        """Of its git directory."""
        known = self._known(repository)
        return repository.path(name) if known is None else known.files[name]

    def _known(self, repository: Repository) -> Checkout | None:
        whole = self._checkout.whole() if self._checkout is not None else ()
        return next((checkout for checkout in whole if checkout.repository == repository), None)

    def _place(self, repository: Repository) -> Repository:
        number = next(self._numbers)
        objects = self.folder / f"objects-{number}"
        objects.mkdir()
        known = [repository.extra.get("GIT_OBJECT_DIRECTORY"), repository.extra.get("GIT_ALTERNATE_OBJECT_DIRECTORIES")]
        before = [_quoted(known[0]), known[1] or ""] if known[0] else [_quoted(str(self._file(repository, "objects")))]
        return repository.with_variables(
            GIT_INDEX_FILE=str(self.folder / f"index-{number}"),
            GIT_OBJECT_DIRECTORY=str(objects),
            GIT_ALTERNATE_OBJECT_DIRECTORIES=":".join(before),
        )


@contextmanager
def git_scratch(checkout: Checkout | None = None) -> Iterator[GitScratch]:
    """Opens a scratch folder beside the archives, for its owner only and gone afterwards; a dry run leaves nothing."""
    with ExitStack() as stack:
        yield GitScratch(lambda: _folder(stack), checkout)


def _folder(stack: ExitStack) -> Path:
    """A new folder, which goes when the stack is closed, with the folders above it that had to be made for it."""
    above = (cache.packages_dir(), *cache.packages_dir().parents)
    for folder in reversed([folder for folder in above if not folder.exists()]):
        stack.callback(_remove_if_empty, folder)
    try:
        scratch = cache.make_bench()
    except OSError:  # such as a home that cannot be written, where a dry run is still worth something
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nemotron-package-")))
    stack.callback(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _written(ours: Repository) -> str:
    return _blind(ours).line("write-tree", "--missing-ok")


def _blind(ours: Repository) -> Repository:
    return ours.with_variables(GIT_ALTERNATE_OBJECT_DIRECTORIES="")


def _quoted(path: str | None) -> str:
    """A path in the list of alternates: quoted as in C, since it may hold a colon."""
    text = (path or "").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
